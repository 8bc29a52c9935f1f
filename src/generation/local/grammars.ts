// Compiles the output format and tool parameters of a request to grammars that constrain the engine's sampling.
// Compilation runs in the engine off the event loop, before anything is reserved. The grammars of one request are
// compiled in sequence, and organizations take turns, so that they cannot delay each other. Event-loop thread only.
import type {
  CompiledGrammar,
  GrammarOptions,
  GrammarProblem,
  NativeGrammar,
} from '../../engine/addon-grammar-types.js';
import type { Engine } from '../../engine/engine.js';
import { apiError, type ApiError } from '../../shared/errors.js';
import { stringifyExact, withMembers } from '../../shared/exact-json.js';
import { shareOf } from '../../shared/thread-count.js';
import { boundParameters } from '../custom-tools.js';
import { FairSlots, type Requester } from '../fair-slots.js';
import { isGbnf, schemaCharacters } from '../output-format.js';
import { pathOf } from './schema-path.js';
import type { ToolSyntax } from './tools/syntax.js';
import type { GrammarSettings } from '../generation-limits.js';
import type { GenerationRequest, JsonSchema, OutputFormat, ToolDefinition } from '../types.js';

export interface RequestGrammars {
  /** Null if the content is unconstrained. */
  readonly format: NativeGrammar | null;
  /** For each tool, by name: the grammar of its arguments and of the text that ends the call. */
  readonly calls: ReadonlyMap<string, NativeGrammar>;
  /** Paths of schema keywords that are not enforced. */
  readonly ignoredKeywords: readonly string[];
}

type GrammarRequest = Pick<GenerationRequest, 'format' | 'tools'>;
type Compile = Pick<Engine, 'compileGrammar'>;

const NONE: RequestGrammars = { format: null, calls: new Map(), ignoredKeywords: [] };

/** Compile time per organization and minute, in ms. Cached grammars do not count. */
export const COMPILE_BUDGET_MS = 6_000;
/** The whole process runs at most two compilations at a time, divided among its threads. */
const compiling = new FairSlots(shareOf(2), 'schemas to compile', shareOf(1 << 26), {
  budget: { ms: shareOf(COMPILE_BUDGET_MS), msPerMs: shareOf(COMPILE_BUDGET_MS) / 60_000 },
});
/** Minimum weight of a schema, because even a short schema can take long to compile. */
const MIN_WEIGHT = 1 << 14;

/** An object without properties. */
const NO_PARAMETERS: JsonSchema = { type: 'object', properties: {}, additionalProperties: false };

/**
 * Throws ApiError: 422 for an invalid schema, pattern, grammar or choice, 503 if the queue is full. Throws the signal's
 * reason if the signal is aborted.
 */
export async function compileGrammars(
  engine: Compile,
  request: GrammarRequest,
  syntax: ToolSyntax,
  settings: GrammarSettings,
  requester: Requester,
): Promise<RequestGrammars> {
  const { format, tools } = request;
  if (format.type === 'text' && tools.length === 0) return NONE;
  const ignoredKeywords: string[] = [];
  const bound =
    format.type === 'text'
      ? null
      : await compiling.run(requester, formatWeight(format), () =>
          compileFormat(charging(engine, requester), format, settings, ignoredKeywords),
        );
  const calls = new Map<string, NativeGrammar>();
  for (const tool of tools) {
    const weight = MIN_WEIGHT + (tool.parameters === null ? 0 : schemaCharacters(tool.parameters));
    const grammar = await compiling.run(requester, weight, () =>
      compileTool(charging(engine, requester), tool, syntax, settings, ignoredKeywords),
    );
    calls.set(tool.name, grammar);
  }
  return { format: bound, calls, ignoredKeywords };
}

/** Wraps the engine so that compile time is charged to the requester. */
function charging(engine: Compile, { organization }: Requester): Compile {
  return {
    compileGrammar: async (options) => {
      const compiled = await engine.compileGrammar(options);
      compiling.charge(organization, compiled.compileMs);
      return compiled;
    },
  };
}

function formatWeight(format: BoundFormat): number {
  switch (format.type) {
    case 'json_schema':
      return MIN_WEIGHT + schemaCharacters(format.schema);
    case 'regex':
      return MIN_WEIGHT + format.pattern.length;
    case 'grammar':
      return MIN_WEIGHT + format.grammar.length;
    default:
      return MIN_WEIGHT;
  }
}

type BoundFormat = Exclude<OutputFormat, { type: 'text' }>;

async function compileFormat(
  engine: Compile,
  format: BoundFormat,
  { whiteSpace }: GrammarSettings,
  ignoredKeywords: string[],
): Promise<NativeGrammar> {
  // a response starts with its value
  const options = { ...COMMON, strict: true, whiteSpace: nativeSpace(whiteSpace, 'within') };
  switch (format.type) {
    case 'json_object':
      return taken(await engine.compileGrammar({ ...options, kind: 'json_object' }), 'response_format');
    case 'json_schema':
      return schemaGrammar(engine, { ...options, strict: format.strict }, format.schema, format.path, ignoredKeywords);
    case 'regex':
      return taken(await engine.compileGrammar({ ...options, kind: 'regex', pattern: format.pattern }), format.path);
    case 'grammar': {
      const kind = isGbnf(format.grammar) ? 'grammar' : 'lark';
      return taken(await engine.compileGrammar({ ...options, kind, grammar: format.grammar }), format.path);
    }
    case 'choice':
      return taken(
        await engine.compileGrammar({ ...options, kind: 'choice', choices: [...format.choices] }),
        format.path,
      );
  }
}

async function compileTool(
  engine: Compile,
  { parameters, strict, path, custom }: ToolDefinition,
  syntax: ToolSyntax,
  { callWhiteSpace }: GrammarSettings,
  ignoredKeywords: string[],
): Promise<NativeGrammar> {
  // Tool arguments are always an object, even if the schema allows other types.
  const schema =
    custom !== undefined
      ? boundParameters(custom.grammar)
      : parameters === null
        ? NO_PARAMETERS
        : withMembers(parameters, { type: 'object' });
  const { tail, lead, spelling } = syntax;
  const options = {
    ...COMMON,
    strict,
    whiteSpace: nativeSpace(callWhiteSpace, 'flexible'),
    suffix: tail,
    ...(lead === undefined ? {} : { lead }),
    ...(spelling === undefined ? {} : { spelling: spelling(schema) }),
  };
  if (custom === undefined) return schemaGrammar(engine, options, schema, path, ignoredKeywords);
  return taken(
    await engine.compileGrammar({ ...options, kind: 'json_schema', schema: stringifyExact(schema) }),
    custom.grammar?.path ?? path,
  );
}

const COMMON = { oneOfAsAnyOf: true, order: 'schema' } as const;

const nativeSpace = <T extends GrammarOptions['whiteSpace']>(setting: 'compact' | 'flexible', spaced: T): 'none' | T =>
  setting === 'compact' ? 'none' : spaced;

/** The engine's internal keywords are refused in client schemas, because only this server may use them. */
const INTERNAL_NAME = /"\\u0001[^"]*":/;

async function schemaGrammar(
  engine: Compile,
  options: Omit<GrammarOptions, 'kind'>,
  schema: JsonSchema,
  path: string,
  ignoredKeywords: string[],
): Promise<NativeGrammar> {
  const text = stringifyExact(schema);
  if (INTERNAL_NAME.test(text))
    throw apiError('invalid_json_schema', `${path}: a name starts with the control character U+0001.`, path);
  const { grammar, problems } = await engine.compileGrammar({ ...options, kind: 'json_schema', schema: text });
  const last = problems.at(-1);
  if (grammar === null) throw refusal(schema, path, last);
  for (const problem of problems) ignoredKeywords.push(pathOf(schema, path, problem));
  return grammar;
}

function refusal(schema: JsonSchema, path: string, problem: GrammarProblem | undefined): ApiError {
  if (problem === undefined) return apiError('invalid_json_schema', `${path}: the schema cannot be compiled.`, path);
  const { kind, keyword, pointer, what } = problem;
  const place = pathOf(schema, path, problem);
  const named = `${JSON.stringify(keyword.slice(0, 64))} at ${JSON.stringify(pointer.slice(0, 400))}`;
  switch (kind) {
    case 'unsupported':
      return apiError(
        'unsupported_json_schema',
        `${place}: the keyword ${named} is not supported in a strict schema: ${bounded(what)}.`,
        place,
      );
    case 'too_large':
      return apiError(
        'unsupported_json_schema',
        `${place}: the schema is too complex to compile: ${bounded(what)}.`,
        place,
      );
    case 'impossible':
    case 'invalid':
      return apiError(
        'invalid_json_schema',
        `${place}: ${bounded(what)}${keyword === '' ? '' : ` (${named})`}.`,
        place,
      );
  }
}

/** Returns the grammar, or throws the error for an invalid value. */
function taken({ grammar, problems }: CompiledGrammar, path: string): NativeGrammar {
  if (grammar !== null) return grammar;
  const problem = problems.at(-1);
  throw apiError(
    problem?.kind === 'unsupported' ? 'unsupported_value' : 'invalid_value',
    `${path}: ${bounded(problem?.what ?? 'it cannot be compiled')}.`,
    path,
  );
}

/** Shortens the compiler's message, because it may quote text from the client. */
function bounded(what: string): string {
  return what.length > 300 ? `${what.slice(0, 300)}…` : what;
}
