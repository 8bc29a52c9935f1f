// GET /props and /slots: a model's settings and current load, in the fields that llama-server clients and test
// harnesses read. Like /metrics, restricted to operators, because the response shows the load of all users and file
// paths. llama-server fields without an equivalent here (sampler order, other clients' prompts) are omitted. Event-loop
// thread only.
import { apiError } from '../../shared/errors.js';
import type { ModelDescription } from '../../generation/model-description.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { VERSION } from '../../shared/version.js';

/** A model's current state. */
export interface ModelState {
  readonly description: ModelDescription;
  readonly file: string;
  /**
   * Quantization of the weights, such as Q8_0. This and all following fields are null while the model is not
   * loaded.
   */
  readonly quantization: string | null;
  readonly chatTemplate: string | null;
  readonly bos: string | null;
  readonly eos: string | null;
  /** Maximum and current number of running sequences, totaled over all models that share the weights. */
  readonly sequences: { readonly most: number; readonly running: number } | null;
  /** Whether the model stays unloaded until the next request. */
  readonly unloaded: boolean;
  /** Whether speculative decoding is on. If so, one step can produce several tokens. */
  readonly guesses: boolean;
}

export interface StateOptions {
  /** Sorted by tier, highest first. */
  states(): readonly ModelState[];
  /** Rejects with ApiError 401 or 403. */
  check(exchange: Exchange): Promise<void>;
}

export function stateRoutes({ states, check }: StateOptions): Route[] {
  const route = (path: string, serve: (exchange: Exchange, state: ModelState) => void): Route => ({
    method: 'GET',
    path,
    scope: null,
    public: true,
    handler: async (exchange) => {
      await check(exchange);
      serve(exchange, modelOf(states(), exchange.query.get('model')));
    },
  });
  return [
    route('/props', (exchange, state) => exchange.json(200, propsOf(state))),
    route('/slots', (exchange, state) => {
      const { most, running } = state.sequences ?? { most: 0, running: 0 };
      if (running >= most && (exchange.query.get('fail_on_no_slot') ?? '') !== '')
        throw apiError('capacity_exhausted', 'All sequence slots are in use.', null, { retryAfterMs: 1_000 });
      exchange.json(
        200,
        Array.from({ length: most }, (_, id) => slotOf(state, id, id < running)),
      );
    }),
  ];
}

/** Returns the named model, or the first one if no name is given. */
function modelOf(states: readonly ModelState[], name: string | null): ModelState {
  const found = name === null ? states[0] : states.find(({ description }) => description.id === name);
  if (found === undefined)
    throw apiError(
      'model_not_found',
      name === null ? 'No model is served.' : `There is no model "${name.slice(0, 128)}".`,
      'model',
    );
  return found;
}

/** The default sampling parameters, under llama-server's names. */
function defaultsOf({ sampling }: ModelDescription): object {
  return {
    n_predict: -1,
    max_tokens: -1,
    temperature: sampling.temperature,
    top_k: sampling.top_k,
    top_p: sampling.top_p,
    min_p: sampling.min_p,
    repeat_penalty: sampling.repetition_penalty,
    presence_penalty: 0,
    frequency_penalty: 0,
    ignore_eos: false,
    stop: [],
  };
}

function propsOf(state: ModelState): object {
  const { description, file, quantization, chatTemplate, bos, eos, sequences, unloaded } = state;
  return {
    default_generation_settings: { params: defaultsOf(description), n_ctx: description.contextWindow },
    total_slots: sequences?.most ?? 0,
    model_alias: description.id,
    model_ftype: quantization,
    model_path: file,
    modalities: { vision: description.inputModalities.includes('image'), video: false, audio: false },
    endpoint_slots: true,
    endpoint_props: false,
    endpoint_metrics: true,
    chat_template: chatTemplate ?? '',
    bos_token: bos ?? '',
    eos_token: eos ?? '',
    build_info: `monolith-${VERSION}`,
    is_sleeping: unloaded,
  };
}

/** Sequences do not have fixed slot numbers here, so the first N slots are reported as busy. */
function slotOf({ description, guesses }: ModelState, id: number, isProcessing: boolean): object {
  return {
    id,
    n_ctx: description.contextWindow,
    speculative: guesses,
    is_processing: isProcessing,
    params: defaultsOf(description),
  };
}
