// Colors for terminals. Every function returns its text unchanged unless colors are enabled, so that files, pipes and
// log collectors get plain text.

import { isatty } from 'node:tty';

const CODES = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
} as const;

export type Color = keyof typeof CODES;
/** Applies a color to text. */
export type Paint = (color: Color, text: string) => string;

/**
 * Whether to write colors to a stream. FORCE_COLOR takes precedence (0 or false: no), then NO_COLOR (no). Without both,
 * colors are used on terminals, unless TERM is `dumb`.
 */
export function wantsColor(
  descriptor: number,
  env: Readonly<Record<string, string | undefined>> = process.env,
  isTerminal: (descriptor: number) => boolean = isatty,
): boolean {
  const forced = env['FORCE_COLOR'] ?? '';
  if (forced !== '') return forced !== '0' && forced !== 'false';
  if ((env['NO_COLOR'] ?? '') !== '') return false;
  return env['TERM'] !== 'dumb' && isTerminal(descriptor);
}

export const plain: Paint = (_color, text) => text;

const colored: Paint = (color, text) => {
  const [on, off] = CODES[color];
  return text === '' ? text : `\u001b[${on}m${text}\u001b[${off}m`;
};

export const paintFor = (isColored: boolean): Paint => (isColored ? colored : plain);

/** For output to standard output or standard error. */
export const stdoutPaint = (): Paint => paintFor(wantsColor(1));
export const stderrPaint = (): Paint => paintFor(wantsColor(2));
