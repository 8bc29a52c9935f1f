// The files that precede the text around a gap, for models without tokens for this. No side effects.
import type { RepositoryFile } from './types.js';

export const filesText = (files: readonly RepositoryFile[] = []): string =>
  files.map(({ name, text }) => `--- ${name} ---\n${text}\n\n`).join('');
