// What a request binds its answer to, as grammars the engine samples under: its output format and its tools'
// parameters. Compiled by the engine, off the event loop, before anything is reserved; one request's one after
// the other and each in its organization's turn, so that nobody's many hold up another's. Event-loop thread only.
import type { CompiledGrammar, GrammarOptions, GrammarProblem, NativeGrammar } from '../../engine/addon-types.js';
import type { Engine } from '../../engine/engine.js';
import { apiError, type ApiError } from '../../shared/errors.js';
import { stringifyExact, withMembers } from '../../shared/exact-json.js';
import { shareOf } from '../../shared/thread-count.js';
import { FairSlots, type Claimant } from '../fair-slots.js';
import { schemaCharacters } from '../output-format.js';
import { pathOf } from './schema-path.js';
import type { ToolSyntax } from './tools/syntax.js';
import type { GrammarSettings } from '../generation-limits.js';
import type { GenerationRequest, JsonSchema, OutputFormat, ToolDefinition } from '../types.js';

export interface RequestGrammars {
  /** Null: the content is free. */
  readonly format: NativeGrammar | null;
  /** By the tool's name: its arguments and what ends the call. */
  readonly calls: ReadonlyMap<string, NativeGrammar>;
  /** Paths of keywords that bind nothing. */
  readonly leftOut: readonly string[];
}

type GrammarRequest = Pick<GenerationRequest, 'format' | 'tools'>;
type Compile = Pick<Engine, 'compileGrammar'>;

const NONE: RequestGrammars = { format: null, calls: new Map(), leftOut: [] };

/** One organization's time of the compiling threads in a minute. Grammars that are compiled already take none. */
export const COMPILE_BUDGET_MS = 6_000;
/** Of the whole process, as far as threads can divide two. */
const compiling = new FairSlots(shareOf(2), 'schemas to compile', shareOf(1 << 26), {
  ms: shareOf(COMPILE_BUDGET_MS),
  msPerMs: shareOf(COMPILE_BUDGET_MS) / 60_000,
});
/** What a schema weighs besides its text: a short one may take as long. */
const LEAST_WEIGHT = 1 << 14;

/** An object without properties. */
const NO_PARAMETERS: JsonSchema = { type: 'object', properties: {}, additionalProperties: false };

/** Throws ApiError: 422 for a schema, pattern, grammar or choice that is refused, 503 if too many wait; the signal's reason if it aborts before. */
export async function compileGrammars(
  engine: Compile,
  request: GrammarRequest,
  syntax: ToolSyntax,
  settings: GrammarSettings,
  claimant: Claimant,
): Promise<RequestGrammars> {
  const { format, tools } = request;
  if (format.type === 'text' && tools.length === 0) return NONE;
  const leftOut: string[] = [];
  const bound =
    format.type === 'text'
      ? null
      : await compiling.run(claimant, formatWeight(format), () =>
          compileFormat(charging(engine, claimant), format, settings, leftOut),
        );
  const calls = new Map<string, NativeGrammar>();
  for (const tool of tools) {
    const weight = LEAST_WEIGHT + (tool.parameters === null ? 0 : schemaCharacters(tool.parameters));
    const grammar = await compiling.run(claimant, weight, () =>
      compileTool(charging(engine, claimant), tool, syntax, settings, leftOut),
    );
    calls.set(tool.name, grammar);
  }
  return { format: bound, calls, leftOut };
}

/** The same, at the claimant's expense. */
function charging(engine: Compile, { organization }: Claimant): Compile {
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
      return LEAST_WEIGHT + schemaCharacters(format.schema);
    case 'regex':
      return LEAST_WEIGHT + format.pattern.length;
    case 'grammar':
      return LEAST_WEIGHT + format.grammar.length;
    default:
      return LEAST_WEIGHT;
  }
}

type BoundFormat = Exclude<OutputFormat, { type: 'text' }>;

async function compileFormat(
  engine: Compile,
  format: BoundFormat,
  { whiteSpace }: GrammarSettings,
  leftOut: string[],
): Promise<NativeGrammar> {
  const options = { ...COMMON, strict: true, whiteSpace: nativeSpace(whiteSpace, 'within') }; // an answer begins with its value
  switch (format.type) {
    case 'json_object':
      return taken(await engine.compileGrammar({ ...options, kind: 'json_object' }), 'response_format');
    case 'json_schema':
      return schemaGrammar(engine, { ...options, strict: format.strict }, format.schema, format.path, leftOut);
    case 'regex':
      return taken(await engine.compileGrammar({ ...options, kind: 'regex', pattern: format.pattern }), format.path);
    case 'grammar':
      return taken(await engine.compileGrammar({ ...options, kind: 'grammar', grammar: format.grammar }), format.path);
    case 'choice':
      return taken(
        await engine.compileGrammar({ ...options, kind: 'choice', choices: [...format.choices] }),
        format.path,
      );
  }
}

function compileTool(
  engine: Compile,
  { parameters, strict, path }: ToolDefinition,
  syntax: ToolSyntax,
  { callWhiteSpace }: GrammarSettings,
  leftOut: string[],
): Promise<NativeGrammar> {
  // Whatever else the schema allows: a call's arguments are an object.
  const schema = parameters === null ? NO_PARAMETERS : withMembers(parameters, { type: 'object' });
  const { tail, lead, spelling } = syntax;
  const options = {
    ...COMMON,
    strict,
    whiteSpace: nativeSpace(callWhiteSpace, 'flexible'),
    suffix: tail,
    ...(lead === undefined ? {} : { lead }),
    ...(spelling === undefined ? {} : { spelling: spelling(schema) }),
  };
  return schemaGrammar(engine, options, schema, path, leftOut);
}

const COMMON = { oneOfAsAnyOf: true, order: 'schema' } as const;

const nativeSpace = <T extends GrammarOptions['whiteSpace']>(setting: 'compact' | 'flexible', spaced: T): 'none' | T =>
  setting === 'compact' ? 'none' : spaced;

async function schemaGrammar(
  engine: Compile,
  options: Omit<GrammarOptions, 'kind'>,
  schema: JsonSchema,
  path: string,
  leftOut: string[],
): Promise<NativeGrammar> {
  const { grammar, problems } = await engine.compileGrammar({
    ...options,
    kind: 'json_schema',
    schema: stringifyExact(schema),
  });
  const last = problems.at(-1);
  if (grammar === null) throw refusal(schema, path, last);
  for (const problem of problems) leftOut.push(pathOf(schema, path, problem));
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
        `${place}: the schema takes too much to compile: ${bounded(what)}.`,
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

/** The error for a value that is no schema. */
function taken({ grammar, problems }: CompiledGrammar, path: string): NativeGrammar {
  if (grammar !== null) return grammar;
  const problem = problems.at(-1);
  throw apiError(
    problem?.kind === 'unsupported' ? 'unsupported_value' : 'invalid_value',
    `${path}: ${bounded(problem?.what ?? 'it cannot be compiled')}.`,
    path,
  );
}

/** What the compiler says may hold some of the client's own words. */
function bounded(what: string): string {
  return what.length > 300 ? `${what.slice(0, 300)}…` : what;
}
