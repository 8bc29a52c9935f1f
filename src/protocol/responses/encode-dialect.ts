// Chooses the names of the raw-reasoning events. The two standards disagree, and each one's validators reject the
// other's names. No side effects.
import type { Config } from '../../config/settings.js';
import { apiError } from '../../shared/errors.js';
import type { EventDialect } from './encode-items.js';

const HEADER = 'x-event-dialect';

export type DialectSettings = Pick<Config['responses'], 'reasoning_events' | 'openai_user_agents'>;

/**
 * `header` returns '' for an absent header. For a WebSocket, it reads the handshake's headers. Throws ApiError 400 for
 * an unknown dialect.
 */
export function eventDialect(settings: DialectSettings, header: (name: string) => string): EventDialect {
  const asked = header(HEADER).trim().toLowerCase();
  if (asked === 'openai' || asked === 'openresponses') return asked;
  if (asked !== '') throw apiError('invalid_header', `${HEADER} must be openai or openresponses.`, HEADER);
  if (settings.reasoning_events !== 'auto') return settings.reasoning_events;
  // OpenAI's own SDKs and SDKs built with the same generator send this header.
  if (header('x-stainless-lang') !== '') return 'openai';
  const agent = header('user-agent').toLowerCase();
  return settings.openai_user_agents.some((start) => agent.startsWith(start.toLowerCase()))
    ? 'openai'
    : 'openresponses';
}
