// Finds environment variables that look like settings but are not, so that a mistyped variable is reported and not
// silently ignored.

import { closest } from './did-you-mean.js';

const PREFIX = 'MONOLITH_';

/** Variables that are not settings and cause no warning. */
const OTHERS: readonly (string | RegExp)[] = [
  // Read by clients, including `monolith chat --url` and the guides' examples.
  'MONOLITH_KEY',
  'MONOLITH_URL',
  // Read by the command line, but not settings.
  'MONOLITH_CONFIG',
  'MONOLITH_ADDON',
  // Read by the build, the tests, and the packaging and benchmark scripts.
  /^MONOLITH_(TEST|BUILD|CLEAN|GPU|FUZZ|FAKE)_/,
  /^MONOLITH_IMAGE(_BUILD|_PORT)?$/,
  /^MONOLITH_AGENTS(_RECORD)?$/,
  /^MONOLITH_VECTORS[23]?$/,
  'MONOLITH_OUT',
  'MONOLITH_TELL',
  'MONOLITH_TEMPLATES',
  'MONOLITH_VISION',
  'MONOLITH_WRITE_DOCS',
  'MONOLITH_WRITE_NUMERICS',
  // Set by Kubernetes in every pod for each service whose name starts with "monolith".
  /^MONOLITH_(\w+_)?SERVICE_(HOST|PORT(_\w+)?)$/,
  /^MONOLITH_(\w+_)?PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/,
];

/** The value of NAME_PORT that Kubernetes sets. */
const KUBERNETES_PORT = /^(tcp|udp|sctp):\/\//;

export interface UnknownVariable {
  readonly name: string;
  /** The setting variable that a mistyped name most likely refers to, or null. */
  readonly meant: string | null;
}

/**
 * The variables starting with MONOLITH_ that are neither in `known` nor in the list above, in alphabetical order. As in
 * shells and Compose files, an empty variable counts as not set.
 */
export function unknownVariables(
  env: Readonly<Record<string, string | undefined>>,
  known: readonly string[],
): UnknownVariable[] {
  const taken = new Set(known);
  const isOther = (name: string, value: string): boolean =>
    OTHERS.some((one) => (typeof one === 'string' ? one === name : one.test(name))) ||
    (name.endsWith('_PORT') && KUBERNETES_PORT.test(value));
  return Object.entries(env)
    .filter(([name, value]) => name.startsWith(PREFIX) && !taken.has(name) && (value ?? '') !== '')
    .filter(([name, value]) => !isOther(name, value as string))
    .map(([name]) => ({ name, meant: closest(name, known, maxDistance(name)) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * A variable counts as mistyped if at most two letters differ and, in a short name, at most half of the letters.
 * MONOLITH_TAG, for example, is not a mistyped MONOLITH_LOG.
 */
const maxDistance = (name: string): number => Math.min(2, Math.floor((name.length - PREFIX.length) / 2));
