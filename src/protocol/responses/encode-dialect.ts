// Which names the raw-reasoning events get: two standards disagree, and each one's checker rejects the other's
// (contract section 4). Pure.
import type { Config } from '../../config/settings.js';
import { apiError } from '../../shared/errors.js';
import type { EventDialect } from './encode-items.js';

const HEADER = 'x-event-dialect';

/** `header` returns '' for an absent one; over a WebSocket it reads the handshake. Throws ApiError 400 for an unknown dialect. */
export function eventDialect(
  settings: Pick<Config['responses'], 'reasoning_events' | 'openai_user_agents'>,
  header: (name: string) => string,
): EventDialect {
  const asked = header(HEADER).trim().toLowerCase();
  if (asked === 'openai' || asked === 'openresponses') return asked;
  if (asked !== '') throw apiError('invalid_header', `${HEADER} must be openai or openresponses.`, HEADER);
  if (settings.reasoning_events !== 'auto') return settings.reasoning_events;
  // The vendor's own clients, whatever program they are part of, and those generated like them.
  if (header('x-stainless-lang') !== '') return 'openai';
  const agent = header('user-agent').toLowerCase();
  return settings.openai_user_agents.some((start) => agent.startsWith(start.toLowerCase()))
    ? 'openai'
    : 'openresponses';
}
