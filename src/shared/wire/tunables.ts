// Engine settings that can be changed at run time.
import type { TuneSettings } from './tuning.js';

/**
 * GET …/operator/tunables (a ListPage); GET, PATCH …/operator/tunables/{model}, under any of the engine's names:
 * settings that can be changed at run time. They take effect with the engine's next step.
 */
export interface Tunable {
  name: TunableName;
  value: number;
  default: number;
  min: number;
  max: number;
  help: string;
  /**
   * The flag, environment variable or configuration key that set the default at this startup. If not null, a change
   * lasts only until the next startup that sets the default again.
   */
  given: string | null;
}
export type TunableName = 'max_batch_tokens' | 'max_sequences' | 'step_ms' | 'queue_max' | 'queue_max_tokens';
export interface EngineTunables {
  model: string;
  names: string[];
  tunables: Tunable[];
  /**
   * When the lease ends, while settings are being tried on this engine. Until then, the current settings are temporary;
   * they are reverted when the lease ends, unless it is renewed.
   */
  held_until: string | null;
}
/**
 * PUT …/operator/tunables/{model}/hold. `is_new`: starts a lease; otherwise, renews it. Returns EngineTunables. DELETE
 * ends it (`id` in the query).
 */
export interface EngineHoldRequest {
  id: string;
  is_new: boolean;
  seconds: number;
  values: TuneSettings;
}
/** Null restores the value from the server's startup. Absent values do not change. Returns EngineTunables. */
export type EngineTunablesPatch = Partial<Record<TunableName, number | null>>;
