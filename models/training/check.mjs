// Verifies that training and server agree: renders records with a GGUF file's template as the server does, tokenizes
// them with the engine, and compares both with the text and tokens used for training. Usage: node check.mjs MODEL.gguf
// RECORDS.jsonl   (lines of {record, text, ids}, written by make.py check; build the project first)
import { readFileSync } from 'node:fs';
import { configWith } from '../../dist/config/load.js';
import { ChatTemplate } from '../../dist/generation/local/template/chat-template.js';
import { loadAddon } from '../../dist/engine/load-addon.js';
import { loadOptions } from '../../dist/server/engine-settings.js';

const [model, lines] = process.argv.slice(2);
const addon = loadAddon();
const { chatTemplate, bos, eos } = (await addon.inspect(model, loadOptions(configWith()))).model;
const template = new ChatTemplate(chatTemplate, { bos, eos });
const tokenizer = addon.loadTokenizer(model);

/** The record in the service's form: complete tools, and calls with their arguments as text. */
function context({ messages, tools }) {
  return {
    messages: messages.map(({ role, content, name, tool_calls: calls }) => ({
      role, content, ...(name === undefined ? {} : { name }),
      ...(calls === undefined ? {} : { tool_calls: calls.map((call, i) => ({ id: `call_${i}`, type: 'function', function: call })) }),
    })),
    tools: tools === undefined ? null : tools.map((tool) => ({ type: 'function', function: tool })),
  };
}

let count = 0;
for (const line of readFileSync(lines, 'utf8').split('\n')) {
  if (line === '') continue;
  const { record, text, ids } = JSON.parse(line);
  const last = record.messages.at(-1);
  const { messages, tools } = context(record);
  const prompt = template.render({ messages: messages.slice(0, -1), tools, addGenerationPrompt: true, enableThinking: last.thinking !== undefined });
  const whole = template.render({ messages, tools, addGenerationPrompt: false, enableThinking: false });
  if (!text.startsWith(prompt)) fail('the prompt', record, prompt, text);
  if (last.thinking === undefined && whole !== text) fail('the whole', record, whole, text);
  const tokens = [...tokenizer.tokenize(text, { addSpecial: false, parseSpecial: true, guard: 0 })];
  if (tokens.join() !== ids.join()) fail('the tokens', record, tokens.join(), ids.join());
  count++;
}
console.log(`${count} records: prompts, whole texts and tokens agree`);

function fail(what, record, rendered, expected) {
  const at = [...rendered].findIndex((letter, i) => letter !== expected[i]);
  console.error(`${what} of this record differs at ${at}:\n${JSON.stringify(record)}\nservice:  ${JSON.stringify(rendered.slice(Math.max(0, at - 40), at + 80))}\ntraining: ${JSON.stringify(expected.slice(Math.max(0, at - 40), at + 80))}`);
  process.exit(1);
}
