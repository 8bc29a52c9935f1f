// The completions offered by shells, derived from the declarations of commands and settings.

import { declared } from '../config/settings.js';
import type { FlagKind, OwnFlags } from '../config/arguments.js';
import { RECOMMENDED } from '../shared/recommended-models.js';
import { AGENTS } from './agents/configs.js';
import { SHELLS } from './command.js';
import type { Command, WordKind } from './command.js';

export interface CompletedFlag {
  readonly name: string;
  /** Whether the word after the flag is its value. */
  readonly takesValue: boolean;
  /** The possible values, if there are only a few. */
  readonly values: readonly string[];
  readonly help: string;
}

export interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  readonly takesSettings: boolean;
  readonly actions: readonly string[];
  /** The command's own flags; flags of individual subcommands are in `actionFlags`. */
  readonly flags: readonly CompletedFlag[];
  readonly actionFlags: Readonly<Record<string, readonly CompletedFlag[]>>;
  /** Words to offer as completions. */
  readonly words: readonly string[];
  /** Whether to offer files. */
  readonly takesFiles: boolean;
}

export interface CompletionTable {
  readonly commands: readonly CompletedCommand[];
  /** Settings in the form of flags. */
  readonly settings: readonly CompletedFlag[];
}

export async function completionTable(commands: readonly Command[]): Promise<CompletionTable> {
  const help = {
    name: 'help',
    summary: "show a command's help",
    takesSettings: false,
    actions: commands.map(({ name }) => name),
    flags: [],
    actionFlags: {},
    words: [],
    takesFiles: false,
  };
  return { commands: [...(await Promise.all(commands.map(completed))), help], settings: settingFlags() };
}

async function completed(command: Command): Promise<CompletedCommand> {
  const { flags, actionFlags = {} } = await command.load();
  return {
    name: command.name,
    summary: command.summary,
    takesSettings: command.takesSettings,
    actions: command.actions ?? [],
    flags: ownFlags(flags),
    actionFlags: Object.fromEntries(Object.entries(actionFlags).map(([action, own]) => [action, ownFlags(own)])),
    words: wordsOf(command.words),
    takesFiles: command.words === 'file' || command.words === 'recommended',
  };
}

function wordsOf(kind: WordKind | undefined): readonly string[] {
  switch (kind) {
    case 'recommended':
      return RECOMMENDED.models.map(({ name }) => name);
    case 'shell':
      return SHELLS;
    case 'agent':
      return Object.keys(AGENTS);
    default:
      return [];
  }
}

const takesValue = (kind: FlagKind): boolean => kind === 'value' || kind === 'values';

const ownFlags = (own: OwnFlags): CompletedFlag[] =>
  Object.entries(own).map(([name, kind]) => ({ name, takesValue: takesValue(kind), values: [], help: '' }));

function settingFlags(): CompletedFlag[] {
  const flags = declared.flatMap(({ flag, aliasFlag, setting }) => {
    const { bare, metavar } = setting.kind;
    const help = setting.help.split(/(?<=[.;])\s/)[0]?.replace(/[.;]$/, '') ?? '';
    return [flag, aliasFlag]
      .filter((name) => name !== null)
      .map((name) => ({ name, takesValue: bare !== true, values: choicesOf(metavar), help }));
  });
  return [
    ...new Map(flags.map((one) => [one.name, one])).values(),
    { name: '--config', takesValue: true, values: [], help: 'Configuration file' },
  ];
}

/** The values listed by a placeholder such as `text|json`. `cuda[:N]` is offered as `cuda`; `N` is not offered. */
const choicesOf = (metavar: string): string[] =>
  metavar.includes('|')
    ? metavar
        .split('|')
        .map((one) => one.replace(/\[.*\]$/, ''))
        .filter((one) => /^[a-z0-9_]+$/.test(one))
    : [];
