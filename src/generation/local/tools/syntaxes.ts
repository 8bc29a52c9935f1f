// The known families of tool-call syntaxes, in the order of comparison with a template's call. A new family needs a
// separate file and a line here.
import { apertus } from './apertus.js';
import { command } from './command.js';
import { commandPlus } from './command-plus.js';
import { deepseek } from './deepseek.js';
import { dsml } from './dsml.js';
import { functionary } from './functionary.js';
import { gemma } from './gemma.js';
import { gigachat } from './gigachat.js';
import { glm } from './glm.js';
import { harmony } from './harmony.js';
import { hermes } from './hermes.js';
import { hunyuan } from './hunyuan.js';
import { jsonList, spokenLists } from './json-list.js';
import { kimi } from './kimi.js';
import { llama } from './llama.js';
import { minicpm } from './minicpm.js';
import { minimax } from './minimax.js';
import { minimaxM3 } from './minimax-m3.js';
import { mistral } from './mistral.js';
import { pythonic } from './pythonic.js';
import { solar } from './solar.js';
import type { SyntaxFamily } from './syntax.js';
import { xml } from './xml.js';

export const FAMILIES: readonly SyntaxFamily[] = [
  harmony,
  xml,
  hunyuan,
  glm,
  mistral,
  kimi,
  deepseek,
  dsml,
  minimax,
  minimaxM3,
  minicpm,
  gemma,
  pythonic,
  command,
  commandPlus,
  apertus,
  solar,
  functionary,
  hermes,
  jsonList,
  gigachat,
  llama,
];

/**
 * For models whose templates show no calls: candidates in order of preference. The first family whose token is in the
 * vocabulary is used.
 */
export const SPOKEN: readonly Pick<SyntaxFamily, 'usual' | 'token'>[] = [
  hunyuan,
  glm,
  hermes,
  kimi,
  minimax,
  minimaxM3,
  minicpm,
  gemma,
  pythonic,
  command,
  apertus,
  solar,
  ...spokenLists,
];
