// <|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{...}<|call|>
//
// gpt-oss: a separate message on the commentary channel, which ends the turn. The recipient may also precede the
// channel, as in the template's rendering of past calls. message-parts.ts handles all other channels.
import { HeadedCall, type Header } from './headed-call.js';
import type { SyntaxFamily, ToolSyntax } from './syntax.js';

const OPEN = '<|start|>assistant',
  MESSAGE = '<|message|>';
const ENGINE_OPEN = `${OPEN}<|channel|>commentary to`;
const MAX_HEADER = 1_024;
/** A mark that ends a message or starts another one. */
const OTHER_MARK = /<\|(?:start|end|call|return)\|>$/;

/**
 * Accepts any text before the message marker as a header if it contains a recipient, because the order of the header's
 * parts varies and the constraint is optional.
 */
function header(text: string): Header {
  if (OTHER_MARK.test(text)) return null;
  if (!text.endsWith(MESSAGE)) return text.length > MAX_HEADER ? null : 'more';
  const [, name] = /(?:^|\s)to=functions\.([A-Za-z0-9_.-]+)/.exec(text) ?? [];
  return name === undefined ? null : { name, length: text.length };
}

export const HARMONY: ToolSyntax = {
  name: 'harmony',
  open: OPEN,
  close: '',
  bare: false,
  separators: '',
  engineOpen: ENGINE_OPEN,
  reader: (_first, tools, sink) => new HeadedCall(header, tools, sink),
  head: (tool) => `=functions.${tool} <|constrain|>json${MESSAGE}`,
  tail: '',
  // The channel and the content type "json" do not affect the call.
  ordered: (around) => {
    const words = around
      .replace(/<\|channel\|>\s*[a-z]+|<\|constrain\|>|<\|message\|>/g, ' ')
      .split(/\s+/)
      .filter((word) => word !== '' && word !== 'json');
    return words.sort().join(' ');
  },
  write: (calls) =>
    calls
      .map((call) => `${ENGINE_OPEN}=functions.${call.name} <|constrain|>json${MESSAGE}${call.arguments}<|call|>`)
      .join(''),
};

export const harmony: SyntaxFamily = {
  usual: HARMONY,
  recognize: ({ before, after }) =>
    /<\|start\|>assistant.*to=functions\.$/.test(before) && after.includes(MESSAGE) ? HARMONY : null,
};
