// Adds two marked blocks to a TOML configuration file: settings at its top and a table at its end. Both positions are
// valid in every TOML file, so the rest of the file is not parsed.

const BEGIN = '# begin: settings written by "monolith agents"';
const END = '# end: settings written by "monolith agents"';
const BLOCK = new RegExp(`^${BEGIN}\n[^]*?^${END}\n\n?`, 'gm');

const block = (text: string): string => `${BEGIN}\n${text}\n${END}\n`;

/**
 * Returns null if the rest of the file may set a name that `root` or `table` sets. A name that is set twice would make
 * the file invalid.
 */
export function editToml(text: string | null, { root, table }: { root: string; table: string }): string | null {
  const rest = (text ?? '').replaceAll('\r\n', '\n').replace(BLOCK, '').trim();
  const names = [...root.matchAll(/^\w+/gm)].map(([name]) => name);
  const taken = new RegExp(
    `^\\s*["']?(${names.join('|')}|model_providers)["']?\\s*=|model_providers\\s*\\.\\s*["']?monolith\\b`,
    'm',
  );
  if (taken.test(rest)) return null;
  return `${block(root)}\n${rest === '' ? '' : `${rest}\n\n`}${block(table)}`;
}
