// Settings for stored token IDs of tool calls and reasoning. With the stored IDs, later prompts match the prefix cache.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const replay = {
  hours: setting(
    kind.integer(0, 8_760),
    24,
    'Number of hours to keep the token IDs of tool calls and reasoning, so that later prompts match the prefix cache. Stored responses keep their token IDs for responses.retention_days. 0 = token IDs are neither kept nor used.',
  ),
  organization_bytes: setting(
    kind.bytes(65_536, 2 ** 40),
    67_108_864,
    'Maximum size of the token IDs stored per organization for tool calls and reasoning. Above the limit, the token IDs closest to expiry are deleted first.',
  ),
};
