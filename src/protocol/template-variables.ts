// `chat_template_kwargs`: the variables that a request passes to the chat template, and the reasoning settings that
// follow from them. All API formats share these rules. No side effects.
import { isDeepStrictEqual } from 'node:util';
import { apiError } from '../shared/errors.js';
import { copyNotation, stringifyAsWritten, withMembers } from '../shared/exact-json.js';
import { isTemplateFunction } from '../generation/render-template.js';
import { REASONING_EFFORTS, type GenerationRequest, type ReasoningEffort } from '../generation/types.js';
import { jsonObject } from './fields.js';

const MAX_VARIABLES = 64;
const MAX_BYTES = 65_536;

const FIELD = 'chat_template_kwargs';
export const templateVariablesField = jsonObject().meta({ maxProperties: MAX_VARIABLES }).nullish();

/** Variables that the server sets itself. */
const RESERVED: ReadonlySet<string> = new Set([
  'messages',
  'tools',
  'add_generation_prompt',
  'continue_final_message',
  'bos_token',
  'eos_token',
]);

/** Variables that turn thinking on and off; the server sets them for every template. */
const SWITCHES = ['enable_thinking', 'thinking'] as const;

type Variables = Readonly<Record<string, unknown>>;

/** A request's reasoning parameters; null or undefined if not given. */
export interface AskedReasoning {
  /** Template variables that the format accepts as parameters, by name. */
  readonly parameters?: Variables;
  readonly effort?: { readonly value: ReasoningEffort; readonly param: string } | null;
  /** Whether another parameter turns thinking on or off. */
  readonly thinking?: { readonly on: boolean; readonly param: string } | null;
}

export interface TemplateSettings {
  /** The effort that follows from the variables and the effort parameter; null if neither is given. */
  readonly effort: GenerationRequest['effort'];
  readonly variables: Variables | undefined;
}

/** Throws ApiError 422 for reserved names, too many or too long variables, and contradictions. */
export function templateSettings(kwargs: Variables | null | undefined, asked: AskedReasoning = {}): TemplateSettings {
  checkVariables(kwargs ?? {});
  const variables = merged(kwargs ?? {}, asked.parameters ?? {});
  const effort = effortOf(variables, asked.effort ?? null);
  const on = switchOf(variables);
  const other =
    asked.thinking ?? (asked.effort == null ? null : { on: asked.effort.value !== 'none', param: asked.effort.param });
  if (on !== null && other !== null && on.value !== other.on) throw conflict(on.param, other.param);
  const rest = withoutSwitches(variables);
  return {
    effort: on?.value === false ? 'none' : (effort ?? (on === null ? null : 'enabled')),
    variables: Object.keys(rest).length === 0 ? undefined : rest,
  };
}

function checkVariables(kwargs: Variables): void {
  const names = Object.keys(kwargs);
  if (names.length > MAX_VARIABLES)
    throw apiError('too_many_entries', `${FIELD} may have at most ${MAX_VARIABLES} entries.`, FIELD);
  for (const name of names) {
    if (!RESERVED.has(name) && !isTemplateFunction(name)) continue;
    throw apiError(
      'unsupported_value',
      `${FIELD}.${name} cannot be set: the server sets this variable.`,
      `${FIELD}.${name}`,
    );
  }
  if (typeof (kwargs['enable_thinking'] ?? false) !== 'boolean')
    throw apiError('invalid_value', `${FIELD}.enable_thinking must be true or false.`, `${FIELD}.enable_thinking`);
  const bytes = names.length === 0 ? 0 : Buffer.byteLength(stringifyAsWritten(kwargs));
  if (bytes > MAX_BYTES)
    throw apiError('value_out_of_range', `${FIELD} may have at most ${MAX_BYTES} bytes of JSON (got ${bytes}).`, FIELD);
}

/** Merges the variables that were given as parameters into `kwargs`. */
function merged(kwargs: Variables, parameters: Variables): Variables {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
  if (given.length === 0) return kwargs;
  for (const [name, value] of given)
    if (Object.hasOwn(kwargs, name) && !isDeepStrictEqual(kwargs[name], value))
      throw conflict(`${FIELD}.${name}`, name);
  return withMembers(kwargs, Object.fromEntries(given));
}

function effortOf(variables: Variables, parameter: AskedReasoning['effort'] | null): ReasoningEffort | null {
  const variable = variables['reasoning_effort'] ?? null;
  if (parameter != null) {
    if (variable !== null && variable !== parameter.value) throw conflict(`${FIELD}.reasoning_effort`, parameter.param);
    return parameter.value;
  }
  if (variable === 'no_think') return 'none';
  return REASONING_EFFORTS.find((effort) => effort === variable) ?? null;
}

interface Switch {
  readonly name: string;
  readonly value: boolean;
  readonly param: string;
}

function isSwitch(name: string, value: unknown): boolean {
  return typeof value === 'boolean' && SWITCHES.some((one) => one === name);
}

/**
 * Returns the variables except the ones that turn thinking on or off. The server sets these, depending on the effort
 * and on how many tokens are left for reasoning.
 */
function withoutSwitches(variables: Variables): Variables {
  const rest = { ...variables };
  for (const name of SWITCHES) if ((rest[name] ?? null) === null || isSwitch(name, rest[name])) delete rest[name];
  copyNotation(variables, rest, (name) => name);
  return rest;
}

function switchOf(variables: Variables): Switch | null {
  const [first, second] = SWITCHES.filter((name) => isSwitch(name, variables[name])).map(
    (name): Switch => ({ name, value: variables[name] as boolean, param: `${FIELD}.${name}` }),
  );
  if (first !== undefined && second !== undefined && first.value !== second.value)
    throw conflict(first.param, second.param);
  return first ?? null;
}

export const conflict = (one: string, other: string): Error =>
  apiError('conflicting_parameters', `${one} and ${other} contradict each other; use only one of them.`, one);
