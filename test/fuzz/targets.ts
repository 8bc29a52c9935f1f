// The fuzz targets for the TypeScript code, by name. The engine's targets are in test/native/fuzz.
import { image } from './images.js';
import { template, tool_calls } from './models.js';
import { chat, completions, data_url, messages, responses, socket } from './requests.js';
import type { Target } from './target.js';
import { upstream } from './upstream.js';

export const targets: Readonly<Record<string, Target>> = {
  chat,
  completions,
  messages,
  responses,
  socket,
  data_url,
  image,
  template,
  tool_calls,
  upstream,
};
