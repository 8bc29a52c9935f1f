// <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{...}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
//
// DeepSeek V3.1; V3 and R1 write "function" and a separator before the name, and the arguments in a fence:
// <｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{...}\n```<｜tool▁call▁end｜>
import { HeadedCall, headerOf, NAME, type Header } from './headed-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';

const OPEN = '<｜tool▁calls▁begin｜>',
  CLOSE = '<｜tool▁calls▁end｜>';
const CALL = '<｜tool▁call▁begin｜>',
  SEPARATOR = '<｜tool▁sep｜>',
  END = '<｜tool▁call▁end｜>';
const FENCE = '```json\n',
  END_FENCE = '\n```';

const fenced = headerOf([CALL, 'function', SEPARATOR, new RegExp(`^(${NAME})`), /^\s*/, FENCE]);
const plain = headerOf([CALL, new RegExp(`^(${NAME})`), SEPARATOR]);

/** A tool may itself be named "function". The text after the separator then shows which of the two headers it is. */
function header(text: string): Header {
  const one = fenced(text);
  return one === null ? plain(text) : one;
}

const COMMON = {
  open: OPEN,
  close: CLOSE,
  bare: false,
  separators: '',
  skipped: [END, '```'],
  engineOpen: OPEN,
  reader: (first, tools, sink) => (first === '<' ? new HeadedCall(header, tools, sink) : null),
} satisfies Partial<ToolSyntax>;

export const DEEPSEEK: ToolSyntax = {
  ...COMMON,
  name: 'deepseek',
  head: (tool) => `${CALL}${tool}${SEPARATOR}`,
  tail: END,
  several: { next: (tool) => `${CALL}${tool}${SEPARATOR}`, end: CLOSE },
  write: (calls) =>
    `${OPEN}${calls.map((call) => `${CALL}${call.name}${SEPARATOR}${call.arguments}${END}`).join('')}${CLOSE}`,
};

export const DEEPSEEK_FENCED: ToolSyntax = {
  ...COMMON,
  name: 'deepseek-fenced',
  head: (tool) => `${CALL}function${SEPARATOR}${tool}\n${FENCE}`,
  tail: END_FENCE + END,
  several: { next: (tool) => `\n${CALL}function${SEPARATOR}${tool}\n${FENCE}`, end: CLOSE },
  write: (calls) =>
    `${OPEN}${calls.map((call) => `${CALL}function${SEPARATOR}${call.name}\n${FENCE}${call.arguments}${END_FENCE}${END}`).join('\n')}${CLOSE}`,
};

export const deepseek: SyntaxFamily = {
  usual: DEEPSEEK,
  recognize({ before, after }) {
    if (before.endsWith(OPEN + CALL) && after.startsWith(SEPARATOR)) return DEEPSEEK;
    return before.endsWith(`${OPEN}${CALL}function${SEPARATOR}`) && after.startsWith(`\n${FENCE}`)
      ? DEEPSEEK_FENCED
      : null;
  },
};
