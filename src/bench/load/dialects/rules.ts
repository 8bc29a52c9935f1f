import type { Dialect } from '../types.js';
import { chat } from './chat.js';
import { completions } from './completions.js';
import type { DialectRules } from './dialect.js';
import { responses } from './responses.js';

export const rulesOf = (dialect: Dialect): DialectRules => ({ chat, completions, responses })[dialect];
