// monolith inspect PATH: shows the contents of a model file or directory, and the memory needed to serve it with the
// current settings. The numbers come from the code that allocates the memory.

import { basename } from 'node:path';
import { commandConfig } from './command-config.js';
import { QUANTIZE_TYPES, showBytes } from '../config/kinds.js';
import type { Config } from '../config/settings.js';
import type { EmbeddingInfo, Inspection, MemoryPlan } from '../engine/addon-types.js';
import { loadAddon } from '../engine/load-addon.js';
import { visionFileOf } from '../engine/vision-file.js';
import { loadOptions } from '../server/engine-settings.js';
import { noWords, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { askedForHelp, table } from './output.js';

const HELP = `
Usage: monolith inspect FILE.gguf|FOLDER [--json] [--tensors] [--quantize q8_0|q6_k|q4_k|q4_0|fp8] [--vision MMPROJ.gguf]

Shows the metadata of a model file and the memory that serving it would take. For a Hugging Face folder,
the metadata is shown under its GGUF names.

  --json             print everything as JSON
  --tensors          list every tensor
  --quantize TYPE    plan with the weights quantized to TYPE while loading
  --vision FILE      vision file; default: the file next to the model with a usual name, or the folder itself

Engine settings such as --max-context and --kv-bytes apply to the memory plan.

Examples:
  monolith inspect path/to/model.gguf
  monolith inspect path/to/model.gguf --max-context 16384 --kv-type q8_0
  monolith inspect path/to/folder --quantize q4_k
`;

export const FLAGS: OwnFlags = {
  '--json': 'switch',
  '--tensors': 'switch',
  '--quantize': 'value',
  '--vision': 'value',
};

export async function inspect(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, values, words } = commandConfig(argv, FLAGS);
  const [file, ...others] = words;
  noWords(others);
  if (file === undefined) throw new UsageError('inspect: a file or folder is required');
  const wanted = values.get('--quantize');
  const quantize = QUANTIZE_TYPES.find((type) => type === wanted);
  if (wanted !== undefined && quantize === undefined)
    throw new UsageError(`inspect: --quantize takes ${QUANTIZE_TYPES.join(', ')}, not "${wanted}"`);
  const vision = visionFileOf({ file, vision: values.get('--vision') });
  let found: Inspection;
  try {
    found = await loadAddon().inspect(file, {
      ...loadOptions(config),
      ...(quantize === undefined ? {} : { quantize }),
      ...(vision === null ? {} : { visionPath: vision.path, visionOptional: vision.found }),
    });
  } catch (error) {
    throw new UsageError(`inspect: ${(error as Error).message}`, error);
  }
  if (values.has('--json')) process.stdout.write(`${JSON.stringify(found)}\n`);
  else
    process.stdout.write(report(file, found, config.engine.arithmetic, vision?.path ?? null, values.has('--tensors')));
  const refused = vision?.found === false && found.vision?.problem != null;
  return found.model === null || refused ? 1 : 0;
}

/**
 * For models with a sliding window, shows the pages by token range, because a request's pages for older tokens are
 * freed while it runs.
 */
function pagesTaken({ fullPages, windowPages, window }: MemoryPlan): string {
  if (windowPages === 0) return '';
  return `16 tokens take ${fullPages}${fullPages > 0 ? '; in addition,' : ';'} the last ${window} tokens of a request take ${windowPages}${fullPages > 0 ? ' more' : ''}; `;
}

/**
 * The percentage of page bytes that is padding; '' if there is none. Padding occurs because layers of different sizes
 * share pages.
 */
function pagesIdle({ pagesFilled }: MemoryPlan): string {
  const idle = 100 * (1 - pagesFilled);
  return idle < 0.05 ? '' : `${idle.toFixed(1)} % padding, because layers differ in size; `;
}

function report(
  file: string,
  found: Inspection,
  arithmetic: Config['engine']['arithmetic'],
  visionFile: string | null,
  allTensors: boolean,
): string {
  const { model, plan } = found;
  const sections: string[] = [];
  const section = (title: string, rows: string[][]): void => {
    sections.push(`${title}\n${table(rows.map((row) => ['', ...row]))}`);
  };

  section(
    `${basename(file)}  ${showBytes(found.fileBytes)}  ${found.fileHash}`,
    model === null
      ? [['cannot be served', found.reason ?? 'unknown reason']]
      : [
          ['architecture', `${model.architecture}${model.name === null ? '' : `, "${clean(model.name)}"`}`],
          [
            'parameters',
            `${(model.parameters / 1e6).toFixed(model.parameters < 1e8 ? 1 : 0)} M, mostly ${model.quantization}`,
          ],
          [
            'layers',
            `${model.layers}, width ${model.embedding}, feed-forward ${model.feedForward}` +
              (model.experts > 0 ? ` per expert, ${model.experts} experts, ${model.usedExperts} active per token` : ''),
          ],
          ['attention', `${model.heads} heads of ${model.headDim}, ${model.kvHeads} for keys and values`],
          ['vocabulary', `${model.vocabulary} tokens; BOS ${shown(model.bos)}, EOS ${shown(model.eos)}`],
          ['context', `${model.contextLength} tokens`],
          ...(arithmetic === 'fast' ? [['arithmetic', "fast: a request's output depends on the batch"]] : []),
          model.embeddings === null
            ? [
                'chat template',
                model.chatTemplate === null ? 'none, ChatML is used' : `${model.chatTemplate.length} characters`,
              ]
            : ['output', outputOf(model.embeddings)],
        ],
  );

  if (plan !== null) {
    section('Memory', [
      ['weights', showBytes(plan.weightBytes)],
      ...(model === null || model.draftLayers === 0
        ? []
        : [
            [
              'of these, draft layer',
              plan.draftWeightBytes === 0
                ? `none: the file's ${model.draftLayers} multi-token-prediction layer${model.draftLayers === 1 ? ' is' : 's are'} not loaded`
                : `${showBytes(plan.draftWeightBytes)} (multi-token prediction: the first of ${model.draftLayers} layer${model.draftLayers === 1 ? '' : 's'}; its keys and values are stored in the KV pages)`,
            ],
          ]),
      [
        'KV pages',
        `${showBytes(plan.kvBytes)}${plan.kvStartBytes < plan.kvBytes ? ' at most, allocated on first use' : ''} (${plan.pages} pages of ${showBytes(plan.pageBytes)}; ${pagesTaken(plan)}${pagesIdle(plan)}up to ${plan.context} tokens per request)`,
      ],
      ...(plan.slotBytes === 0
        ? []
        : [
            [
              'recurrent state',
              `${showBytes(plan.slots * plan.slotBytes)} (${plan.slots} slots of ${showBytes(plan.slotBytes)}: one per running request, and snapshots)`,
            ],
          ]),
      ['activations', showBytes(plan.activationBytes)],
      ['total', showBytes(plan.weightBytes + plan.kvBytes + plan.slots * plan.slotBytes + plan.activationBytes)],
    ]);
  }

  const { vision } = found;
  if (vision !== null) {
    // For a vision encoder that is ignored, only the reason is reported.
    section(
      `Vision: ${basename(visionFile ?? '')}`,
      vision.projector === ''
        ? [['not used', clean(vision.problem ?? '')]]
        : [
            ['projector', clean(vision.projector)],
            ...(vision.problem === null || model === null ? [] : [['does not fit', clean(vision.problem)]]),
            ['weights', showBytes(vision.weightBytes)],
            ['working memory', `${showBytes(vision.workBytes)} at most`],
            [
              'tokens per image',
              vision.imageTokens.map(({ width, height, tokens }) => `${tokens} at ${width} x ${height}`).join(', '),
            ],
          ],
    );
  }

  const byType = new Map<string, { count: number; bytes: number }>();
  for (const { type, bytes } of found.tensors) {
    const sum = byType.get(type) ?? { count: 0, bytes: 0 };
    byType.set(type, { count: sum.count + 1, bytes: sum.bytes + bytes });
  }
  section(
    `Tensors (${found.tensors.length})`,
    allTensors
      ? found.tensors.map((tensor) => [
          clean(tensor.name),
          tensor.type,
          tensor.shape.join(' × '),
          showBytes(tensor.bytes),
        ])
      : [...byType].map(([type, { count, bytes }]) => [type, String(count), showBytes(bytes)]),
  );

  section(
    `Metadata (${found.metadata.length})`,
    found.metadata.map(({ key, type, value, count }) => [
      clean(key),
      type,
      value === null ? `${count} entries` : clean(String(value)).slice(0, 60),
    ]),
  );
  return sections.join('\n');
}

const shown = (spelling: string | null): string => (spelling === null ? 'none' : JSON.stringify(spelling));

// A file's text is untrusted and must not contain terminal escape sequences.
const clean = (text: string): string => text.replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ');

function outputOf({ dimensions, pooling }: EmbeddingInfo): string {
  if (pooling === 'rank') return dimensions === 1 ? 'a score' : `${dimensions} scores`;
  return `vectors of ${dimensions} dimensions, ${pooling} pooling`;
}
