// Types for declaring a command. commands.ts declares all commands.

import type { OwnFlags } from '../config/arguments.js';

/** The type of a command's positional arguments. Shells complete file names on their own. */
export type WordKind = 'file' | 'recommended' | 'command' | 'shell' | 'agent' | 'none';

export interface LoadedCommand {
  run(argv: string[]): Promise<number>;
  /** The command's own flags, which are not settings. */
  readonly flags: OwnFlags;
  /** Flags of individual subcommands, if they differ. */
  readonly actionFlags?: Readonly<Record<string, OwnFlags>>;
}

export interface Command {
  readonly name: string;
  readonly summary: string;
  /** Whether every setting is also a flag of the command. */
  readonly takesSettings: boolean;
  /** Names of the subcommands. */
  readonly actions?: readonly string[];
  readonly words?: WordKind;
  load(): Promise<LoadedCommand>;
}

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
