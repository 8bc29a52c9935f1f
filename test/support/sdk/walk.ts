// Sends one request for each key of a request type and classifies how the server treats the key.
import type { Monolith } from '../../e2e/monolith.js';
import { post } from '../wire.js';
import { entriesOf, member, optionsOf, Sampler, tagged, variantsOf, type Samples, type Variant } from './shapes.js';
import type { Field, Shape } from './types.js';

export interface CallSpec {
  path: string;
  /** Members of every request. */
  base: Readonly<Record<string, unknown>>;
  samples?: Samples;
  /** By path: changes a request that contains this path so that the request is valid. */
  repairs?: Readonly<Record<string, (body: Body) => void>>;
  /** Returns the size of the prompt, if it is known. */
  promptTokens(answer: unknown): number | undefined;
}

export type Body = Record<string, unknown>;

/**
 * The outcome for a key. refused: an error names the key. ignored: a header names the key. prompt: the key changes the
 * prompt. silent: none of these. broken: an error that does not name the key, so the sample or the server is wrong.
 */
export type Outcome = 'refused' | 'ignored' | 'prompt' | 'silent' | 'broken';
export interface Finding {
  path: string;
  outcome: Outcome;
  detail: string;
}

/** Maximum number of concurrent requests. */
const MAX_RUNNING = 32;

interface Answer {
  status: number;
  headers: Headers;
  /** Undefined for a stream. */
  body: unknown;
}

/** Error codes for invalid values of known keys. Each of them means that the sample itself is wrong. */
const WRONG_SAMPLE = new Set([
  'invalid_type',
  'missing_required_parameter',
  'value_out_of_range',
  'invalid_json_schema',
  'invalid_image',
  'unsupported_image_format',
  'invalid_encrypted_content',
  'previous_response_not_found',
  'item_not_found',
  'model_not_found',
  'missing_tool_output',
  'tool_call_not_found',
]);

interface Place {
  path: string;
  /** Puts a value at this place in a request. */
  wrap(value: unknown): Body;
  /** The same request without the value, or null if it is required. */
  without: Body | null;
  /** Keys (Variant.key) of the objects that enclose this place. */
  around: readonly string[];
}

export class KeyWalk {
  readonly findings = new Map<string, Finding>();
  readonly #sampler: Sampler;
  readonly #seen = new Set<string>();
  readonly #answers = new Map<string, Promise<Answer>>();
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /** `skips`: returns whether a path needs no test. */
  constructor(
    private readonly server: Monolith,
    private readonly spec: CallSpec,
    private readonly skips: (path: string) => boolean = () => false,
  ) {
    this.#sampler = new Sampler(spec.samples ?? {});
  }

  async run(shape: Shape): Promise<Finding[]> {
    const [root] = variantsOf(shape);
    if (root === undefined) throw new Error('the request type is not an object');
    const plain = { ...root, tag: '', literals: {} };
    const sample = { ...this.#sampler.object('', plain, 1), ...this.spec.base };
    await this.#fields(plain, { path: '', wrap: (value) => value as Body, without: null, around: [] }, sample);
    const all = [...this.findings.values()];
    return all.map((finding) => ({ ...finding, outcome: outcomeOf(finding, all) }));
  }

  async #fields(variant: Variant, place: Place, sample: Body): Promise<void> {
    const around = [...place.around, variant.key];
    const rest = (name: string): Body => Object.fromEntries(Object.entries(sample).filter(([one]) => one !== name));
    await Promise.all(
      variant.fields.map((field) => {
        const inner: Place = {
          path: member(tagged(place.path, variant), field.name),
          wrap: (value) => place.wrap({ ...sample, [field.name]: value }),
          without: field.required ? null : place.wrap(rest(field.name)),
          around,
        };
        return this.#field(field, inner);
      }),
    );
  }

  async #field(field: Field, place: Place): Promise<void> {
    if (this.#seen.has(place.path) || this.skips(place.path)) return;
    this.#seen.add(place.path);
    const shape = field.shape();
    // A required member with a single value carries no information.
    const [only] = optionsOf(shape);
    const isFixed = optionsOf(shape).every(
      (one) => one.kind === 'literal' && only?.kind === 'literal' && one.value === only.value,
    );
    if (field.required && isFixed) return;
    const entries = entriesOf(shape);
    const leaves = [...optionsOf(shape), ...optionsOf(entries ?? { kind: 'union', options: [] })].filter(
      ({ kind }) => kind !== 'object' && kind !== 'list',
    );
    if (leaves.length > 0) await this.#leaf(shape, entries, place);
    await Promise.all([
      ...variantsOf(shape).map((variant) => this.#variant(variant, place, (value) => value)),
      ...variantsOf(entries ?? { kind: 'any' }).map((variant) => this.#variant(variant, place, (value) => [value])),
    ]);
  }

  async #variant(variant: Variant, place: Place, put: (value: unknown) => unknown): Promise<void> {
    const path = tagged(place.path, variant);
    if (this.#seen.has(`${path} object`) || place.around.includes(variant.key) || this.skips(path)) return;
    this.#seen.add(`${path} object`);
    const sample = this.#sampler.object(place.path, variant, 1);
    const wrap = (value: unknown): Body => place.wrap(put(value));
    const larger = this.#sampler.object(place.path, variant, 2);
    const finding = await this.#judge({ ...place, path, wrap }, [sample], [larger]);
    const isWhole = ['broken', 'refused', 'ignored'].includes(finding.outcome);
    if (isWhole || variant.tag !== '') this.#add(finding);
    if (isWhole) return; // its members need no test
    await this.#fields(variant, { ...place, wrap, without: null }, sample);
  }

  /** Tests the non-object values of a member. If the member is a list, each value is sent as a list with one entry. */
  async #leaf(shape: Shape, entries: Shape | null, place: Place): Promise<void> {
    const isList = entries !== null && !optionsOf(shape).some(({ kind }) => kind === 'string');
    const options = optionsOf(isList ? entries : shape).filter(({ kind }) => kind !== 'object' && kind !== 'list');
    const literals = new Set(options.flatMap((one) => (one.kind === 'literal' ? [one.value] : [])));
    const others = options.filter(({ kind }) => kind !== 'literal');
    const isSample = Object.hasOwn(this.spec.samples ?? {}, place.path);
    const values = (size: number): unknown[] =>
      others.length === 0 && literals.size > 0
        ? [...literals]
        : [this.#sampler.value(place.path, { kind: 'union', options: others }, size)];
    const wrap = (value: unknown): Body => place.wrap(isList && !isSample ? [value] : value);
    this.#add(await this.#judge({ ...place, wrap }, values(1), values(2)));
  }

  async #judge(place: Place, values: readonly unknown[], larger: readonly unknown[]): Promise<Finding> {
    const { path } = place;
    const finding = (outcome: Outcome, detail: string): Finding => ({ path, outcome, detail });
    const outcomes: Finding[] = [];
    for (const value of values) {
      const { answer, at } = await this.#send(place.wrap(value), path, value);
      const shown = JSON.stringify(value).slice(0, 80);
      if (answer.status >= 400) outcomes.push({ ...refusal(answer, path, at, value), path });
      else if (isNamed(answer, path, at, value)) outcomes.push(finding('ignored', shown));
      else if (await this.#changesPrompt(answer, place, values, larger)) outcomes.push(finding('prompt', shown));
      else outcomes.push(finding('silent', shown));
    }
    for (const outcome of ['broken', 'silent', 'prompt', 'ignored'] as const) {
      const found = outcomes.filter((one) => one.outcome === outcome);
      if (found.length > 0) return { path, outcome, detail: found.map(({ detail }) => detail).join(' ') };
    }
    return outcomes[0] ?? finding('broken', 'no value');
  }

  async #changesPrompt(
    answer: Answer,
    place: Place,
    values: readonly unknown[],
    larger: readonly unknown[],
  ): Promise<boolean> {
    if (answer.body === undefined) return false;
    const tokens = this.spec.promptTokens(answer.body);
    if (tokens === undefined) return false;
    const others: unknown[] = place.without === null ? [] : [place.without];
    if (JSON.stringify(larger) !== JSON.stringify(values)) others.push(...larger.map((value) => place.wrap(value)));
    else if (values.length > 1) others.push(...values.map((value) => place.wrap(value)));
    for (const other of others) {
      const { answer: second } = await this.#send(other as Body, place.path, null);
      if (second.status < 400 && second.body !== undefined && this.spec.promptTokens(second.body) !== tokens)
        return true;
    }
    return false;
  }

  async #send(body: Body, path: string, value: unknown): Promise<{ answer: Answer; at: string | null }> {
    const { repairs = {} } = this.spec;
    const sent = { ...body };
    for (const [prefix, repair] of Object.entries(repairs)) if (path.startsWith(prefix)) repair(sent);
    const text = JSON.stringify(sent);
    let answer = this.#answers.get(text);
    if (answer === undefined) {
      answer = this.#ask(text);
      this.#answers.set(text, answer);
    }
    return { answer: await answer, at: placeOf(sent, value) };
  }

  async #ask(text: string): Promise<Answer> {
    while (this.#running >= MAX_RUNNING) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#running++;
    try {
      return await this.#post(text);
    } finally {
      this.#running--;
      this.#waiting.shift()?.();
    }
  }

  async #post(text: string): Promise<Answer> {
    const response = await post(this.server, this.spec.path, text);
    const { status, headers } = response;
    const answer = await response.text();
    const isJson = headers.get('content-type')?.startsWith('application/json') === true;
    return { status, headers, body: isJson ? JSON.parse(answer) : undefined };
  }

  #add(finding: Finding): void {
    this.findings.set(finding.path, finding);
  }
}

/**
 * An object without an effect of its own counts as `prompt` if one of its members does, and as `ignored` if all of them
 * do.
 */
function outcomeOf({ path, outcome }: Finding, all: readonly Finding[]): Outcome {
  if (outcome !== 'silent') return outcome;
  const members = all.filter((one) => one.path !== path && isWithin(one.path, path));
  if (members.some((one) => one.outcome === 'prompt')) return 'prompt';
  return members.length > 0 && members.every((one) => one.outcome === 'ignored') ? 'ignored' : 'silent';
}

const plainPath = (path: string): string => path.replace(/\[[^\]]*\]/g, '');
const isWithin = (path: string, outer: string): boolean =>
  path === outer || path.startsWith(`${outer}.`) || path.startsWith(`${outer}[`);

/**
 * Returns the path of an object in a request, such as `input[1].content[0]`, or null if the request does not contain
 * the object.
 */
function placeOf(body: unknown, value: unknown, path = ''): string | null {
  if (typeof value !== 'object' || value === null) return null;
  if (body === value) return path;
  if (typeof body !== 'object' || body === null) return null;
  for (const [name, inner] of Object.entries(body)) {
    const found = placeOf(inner, value, Array.isArray(body) ? `${path}[${name}]` : member(path, name));
    if (found !== null) return found;
  }
  return null;
}

function refusal(answer: Answer, path: string, at: string | null, value: unknown): Omit<Finding, 'path'> {
  const { error } = answer.body as { error?: { code?: string; param?: string | null; message?: string } };
  const detail = `${answer.status} ${error?.code} ${error?.param}: ${error?.message}`.slice(0, 200);
  if (answer.status >= 500 || WRONG_SAMPLE.has(error?.code ?? '')) return { outcome: 'broken', detail };
  const param = plainPath(error?.param ?? '');
  const plain = plainPath(path);
  const name = plain.split('.').at(-1) ?? '';
  const type = (value as { type?: unknown } | null)?.type;
  const isNamed =
    param === plain ||
    param === `${plain}.type` ||
    param === `${plain}.role` ||
    (at !== null && error?.param != null && isWithin(at, error.param)) ||
    (param !== '' &&
      isWithin(plain, param) &&
      new RegExp(`\\b(${name}|${String(type)})\\b`).test(error?.message ?? ''));
  return { outcome: isNamed ? 'refused' : 'broken', detail };
}

function isNamed(answer: Answer, path: string, at: string | null, value: unknown): boolean {
  const list = (name: string): string[] => answer.headers.get(`x-ignored-${name}`)?.split(/, ?/) ?? [];
  const plain = plainPath(path);
  // The header truncates names to 64 characters.
  const shown = (name: string): boolean => isWithin(plain, name) || (name.length === 64 && plain.startsWith(name));
  if (list('parameters').some((name) => shown(name) || name === `${plain}.type`)) return true;
  if (at !== null && list('content').some((place) => isWithin(at, place))) return true;
  const type = (value as { type?: unknown } | null)?.type;
  return typeof type === 'string' && list('tools').includes(type);
}
