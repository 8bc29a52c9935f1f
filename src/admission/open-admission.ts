// Opens the admission backend selected in the configuration. The Redis client is loaded only if it is needed.

import type { Config } from '../config/settings.js';
import type { Admission } from './admission.js';
import { LocalAdmission } from './local-admission.js';
import type { StoredMonth } from './month-use.js';
import type { SharedOptions } from './shared/shared-admission.js';

export interface OpenOptions extends Pick<SharedOptions, 'process' | 'thread' | 'report' | 'called'> {
  buffer: SharedArrayBuffer;
  ledger?: Int32Array;
  storedMonth: StoredMonth;
}

/** Rejects with StartError if the shared counters cannot be reached. */
export async function openAdmission(
  { limits, redis }: Pick<Config, 'limits' | 'redis'>,
  options: OpenOptions,
): Promise<Admission> {
  const { url } = redis;
  if (url === null) return new LocalAdmission(limits, options);
  const { SharedAdmission } = await import('./shared/shared-admission.js');
  return SharedAdmission.open(limits, { ...options, redis: { ...redis, url } });
}
