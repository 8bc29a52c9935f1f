// Rejects parameters of llama-server and other local servers that this server does not support: the samplers below, and
// the list of LoRA adapters. A request that enables such a parameter is rejected, because its output would otherwise
// differ silently. A value that disables the parameter is accepted. No side effects.
import { apiError } from '../shared/errors.js';

type IsOff = (value: unknown) => boolean;

const is =
  (...values: readonly unknown[]): IsOff =>
  (value) =>
    values.includes(value);
const atMost =
  (limit: number): IsOff =>
  (value) =>
    typeof value === 'number' && value <= limit;
const atLeast =
  (limit: number): IsOff =>
  (value) =>
    typeof value === 'number' && value >= limit;

/** The parameters that enable a sampler, each with a function that recognizes the values that disable it. */
const SWITCHES: Readonly<Record<string, IsOff>> = {
  dry_multiplier: is(0),
  xtc_probability: atMost(0),
  typical_p: atLeast(1),
  top_n_sigma: atMost(0),
  dynatemp_range: atMost(0),
  mirostat: is(0, false),
  mirostat_mode: is(0, false),
  adaptive_target: (value) => typeof value === 'number' && value < 0,
  tfs_z: atLeast(1),
  tfs: atLeast(1),
  top_a: atMost(0),
  smoothing_factor: atMost(0),
  epsilon_cutoff: atMost(0),
  eta_cutoff: atMost(0),
};

/** Parameters of these samplers that have no effect while the sampler is disabled. */
const DETAILS = [
  'dry_base',
  'dry_allowed_length',
  'dry_penalty_last_n',
  'dry_sequence_breakers',
  'xtc_threshold',
  'dynatemp_exponent',
  'mirostat_tau',
  'mirostat_eta',
  'adaptive_decay',
  'smoothing_curve',
];

/** llama-server's list of adapters with scales. If no entry has an effect, the base model is used. */
const LORA = 'lora';
const isWithoutAdapter: IsOff = (value) =>
  Array.isArray(value) &&
  value.every((one: unknown) => typeof one === 'object' && one !== null && 'scale' in one && one.scale === 0);

/** Names of all parameters of these samplers, and of the LoRA parameter. */
export const SAMPLER_FIELDS: ReadonlySet<string> = new Set([...Object.keys(SWITCHES), ...DETAILS, LORA]);

/**
 * Throws ApiError 422 unsupported_parameter if the request enables one of these samplers or selects LoRA adapters.
 * `at`: the path of `body` in the request, with a dot at its end.
 */
export function refuseSamplers(body: Readonly<Record<string, unknown>>, at = ''): void {
  for (const [name, isOff] of Object.entries(SWITCHES)) {
    if (!Object.hasOwn(body, name)) continue;
    const value = body[name];
    if (value === null || isOff(value)) continue;
    throw apiError(
      'unsupported_parameter',
      `${at}${name} is not supported. Omit it, or set it to a value that turns the sampler off.`,
      `${at}${name}`,
    );
  }
  if (Object.hasOwn(body, LORA) && body[LORA] !== null && !isWithoutAdapter(body[LORA]))
    throw apiError(
      'unsupported_parameter',
      `${at}${LORA} is not supported. To use a LoRA adapter, send its name as the model (MODEL:ADAPTER, see GET /v1/models).`,
      `${at}${LORA}`,
    );
}
