// One declared setting: its kind, default and help.
import type { Kind } from '../kinds.js';

export interface Setting<T> {
  kind: Kind<T>;
  default: T;
  help: string;
  /** The text that the help shows as the default, if the value itself would not be informative. */
  shown?: string;
  /** A shorter alternative name for the flag and the variable. */
  alias?: string;
  /** Former key and alias, accepted for one release with a notice. */
  renamedFrom?: { readonly key: string; readonly alias?: string };
  secret?: boolean;
  /** Environment variables of other tools, which are read if the setting's own variables are not set. */
  variables?: readonly string[];
  /** Whether --help lists it without --all. */
  main?: boolean;
}

export function setting<T>(
  kindOf: Kind<T>,
  fallback: T,
  help: string,
  more: Omit<Setting<T>, 'kind' | 'default' | 'help'> = {},
): Setting<T> {
  return { kind: kindOf, default: fallback, help, ...more };
}
