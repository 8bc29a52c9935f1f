// GET /props and /slots: what a model is served with and what it is doing, in the fields that clients, boards and harnesses
// made for llama-server read. For operators, as /metrics is: load is other people's, and paths are the machine's.
// Facts that have no like here (samplers' order, prompts of others) are left out. Event-loop thread only.
import { apiError } from '../../shared/errors.js';
import type { ModelDescription } from '../../generation/model-description.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { VERSION } from '../../shared/version.js';

/** A model as it stands. */
export interface ModelState {
  readonly description: ModelDescription;
  readonly file: string;
  /** Of its weights: Q8_0 and the like; null while it is not loaded, as all below. */
  readonly quantization: string | null;
  readonly chatTemplate: string | null;
  readonly bos: string | null;
  readonly eos: string | null;
  /** Sequences that may run at once, and those that do; of all models that share its weights. */
  readonly sequences: { readonly most: number; readonly running: number } | null;
  /** Its memory was given back until somebody asks. */
  readonly rests: boolean;
  /** Several tokens of an answer may come in a step. */
  readonly guesses: boolean;
}

export interface StateOptions {
  /** Highest tier first. */
  states(): readonly ModelState[];
  /** Rejects with ApiError 401, 403. */
  check(exchange: Exchange): Promise<void>;
}

export function stateRoutes({ states, check }: StateOptions): Route[] {
  const route = (path: string, serve: (exchange: Exchange, state: ModelState) => void): Route => ({
    method: 'GET',
    path,
    scope: null,
    public: true,
    serve: async (exchange) => {
      await check(exchange);
      serve(exchange, modelOf(states(), exchange.query.get('model')));
    },
  });
  return [
    route('/props', (exchange, state) => exchange.json(200, propsOf(state))),
    route('/slots', (exchange, state) => {
      const { most, running } = state.sequences ?? { most: 0, running: 0 };
      if (running >= most && (exchange.query.get('fail_on_no_slot') ?? '') !== '')
        throw apiError('capacity_exhausted', 'Every sequence that may run does.', null, { retryAfterMs: 1_000 });
      exchange.json(
        200,
        Array.from({ length: most }, (_, id) => slotOf(state, id, id < running)),
      );
    }),
  ];
}

/** The one named, or the first. */
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

/** What a request that says nothing gets, by llama-server's names. */
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
  const { description, file, quantization, chatTemplate, bos, eos, sequences, rests } = state;
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
    is_sleeping: rests,
  };
}

/** Sequences have no places of their own here: the first so many are those that run. */
function slotOf({ description, guesses }: ModelState, id: number, isProcessing: boolean): object {
  return {
    id,
    n_ctx: description.contextWindow,
    speculative: guesses,
    is_processing: isProcessing,
    params: defaultsOf(description),
  };
}
