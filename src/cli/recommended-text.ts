// The list of recommended models as text, for the terminal and for docs/guides/models.md.

import { RECOMMENDED } from '../shared/recommended-models.js';
import type { RecommendedModel } from '../shared/recommended-models.js';
import { commandName } from './command-name.js';
import { table } from './output.js';

const rowOf = ({ memoryGb, purpose, name, ref, downloadGb, license }: RecommendedModel): string[] => [
  `${memoryGb} GB`,
  purpose,
  name,
  `${downloadGb.toFixed(1)} GB`,
  license,
  ref,
];

/** `command`: how the user runs Monolith. */
export function recommendedText(command: string = commandName()): string {
  const { date, models } = RECOMMENDED;
  return `${table([['MEMORY', 'FOR', 'NAME', 'DOWNLOAD', 'LICENSE', 'MODEL'], ...models.map(rowOf)])}
MEMORY is the memory of the machine, or of the GPU if the model runs there. As of ${date}. Sizes are approximate;
the model pages (--json) have the exact ones. The list was made without downloading the models.

Try one:  ${command} run ${models[0]?.name ?? ''}
`;
}

/** The list as a Markdown table. */
export function recommendedMarkdown(): string {
  const rows = RECOMMENDED.models.map(
    ({ memoryGb, purpose, name, ref, downloadGb, license, source }) =>
      `| ${memoryGb} GB | ${purpose} | \`${name}\` | [${ref}](${source}) | ${downloadGb.toFixed(1)} GB | ${license} |\n`,
  );
  return `| memory | for | name | model | download | license |\n|---|---|---|---|---|---|\n${rows.join('')}`;
}
