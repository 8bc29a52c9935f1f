// Formats the repository files of an infill request as text, for models whose vocabulary has no special tokens for
// files. No side effects.
import type { RepositoryFile } from './types.js';

export const filesText = (files: readonly RepositoryFile[] = []): string =>
  files.map(({ name, text }) => `--- ${name} ---\n${text}\n\n`).join('');
