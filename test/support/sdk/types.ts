// Reads the types of request bodies from the type files of the official SDKs.
import { join } from 'node:path';
import ts from 'typescript';
import { root } from '../../e2e/monolith.js';

/** A type, reduced to the properties that a request can have. Null and undefined are dropped. */
export type Shape =
  | { kind: 'object'; id: object; fields: readonly Field[] }
  /** An object with any members. */
  | { kind: 'map'; value: Shape }
  | { kind: 'list'; entries: Shape }
  | { kind: 'union'; options: readonly Shape[] }
  | { kind: 'literal'; value: string | number | boolean }
  | { kind: 'string' | 'number' | 'boolean' | 'any' };

export interface Field {
  name: string;
  required: boolean;
  /** Evaluated on demand, because types are recursive. */
  shape(): Shape;
}

/** The request body types by call. A call with a stable and a beta form has the union of both types. */
const SOURCE = `
import type * as Chat from 'openai-7/resources/chat/completions/completions';
import type * as Completions from 'openai-7/resources/completions';
import type * as Decisions from 'openai-7/resources/decisions';
import type * as Responses from 'openai-7/resources/responses/responses';
import type * as Count from 'openai-7/resources/responses/input-tokens';
import type * as BetaResponses from 'openai-7/resources/beta/responses/responses';
import type * as BetaCount from 'openai-7/resources/beta/responses/input-tokens';
import type * as Messages from '@anthropic-ai/sdk/resources/messages/messages';
import type * as BetaMessages from '@anthropic-ai/sdk/resources/beta/messages/messages';
export type chat = Chat.ChatCompletionCreateParams;
export type completions = Completions.CompletionCreateParams;
export type decisions = Decisions.DecisionCreateParams;
export type responses = Responses.ResponseCreateParams | BetaResponses.ResponseCreateParams;
export type socket = Responses.ResponsesClientEvent | BetaResponses.BetaResponsesClientEvent;
export type inputTokens = Count.InputTokenCountParams | BetaCount.InputTokenCountParams;
export type compact = Responses.ResponseCompactParams | BetaResponses.ResponseCompactParams;
export type messages = Messages.MessageCreateParams | BetaMessages.MessageCreateParams;
export type countTokens = Messages.MessageCountTokensParams | BetaMessages.MessageCountTokensParams;
`;

export type Call =
  | 'chat'
  | 'completions'
  | 'decisions'
  | 'responses'
  | 'socket'
  | 'inputTokens'
  | 'compact'
  | 'messages'
  | 'countTokens';

/** Only these files of the SDKs are read; the rest of each package is about sending requests. */
const IS_READ = /[\\/]resources[\\/]|[\\/]lib\.es5\.d\.ts$/;

export function readRequestTypes(): Map<Call, Shape> {
  const file = join(root, 'request-types.ts');
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    types: [],
    lib: ['lib.es5.d.ts'],
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
  };
  const host = ts.createCompilerHost(options);
  const readFile = (name: string): string | undefined =>
    name === file ? SOURCE : IS_READ.test(name) ? ts.sys.readFile(name) : 'export {};';
  host.getSourceFile = (name, languageVersion) => ts.createSourceFile(name, readFile(name) ?? '', languageVersion);
  const { fileExists } = host;
  host.fileExists = (name) => name === file || fileExists(name);
  const program = ts.createProgram([file], options, host);
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(file);
  const module = source && checker.getSymbolAtLocation(source);
  if (module === undefined) throw new Error('the request types could not be read');
  const reader = new Reader(checker);
  return new Map(
    checker
      .getExportsOfModule(module)
      .map((symbol) => [symbol.name as Call, reader.shape(checker.getDeclaredTypeOfSymbol(symbol))]),
  );
}

class Reader {
  readonly #shapes = new Map<ts.Type, Shape>();

  constructor(private readonly checker: ts.TypeChecker) {}

  shape(type: ts.Type): Shape {
    const known = this.#shapes.get(type);
    if (known !== undefined) return known;
    const shape = this.#read(type);
    this.#shapes.set(type, shape);
    return shape;
  }

  #read(type: ts.Type): Shape {
    const { checker } = this;
    if (type.flags & ts.TypeFlags.BooleanLike && !(type.flags & ts.TypeFlags.Union))
      return { kind: 'literal', value: checker.typeToString(type) === 'true' };
    if (type.flags & ts.TypeFlags.Boolean) return { kind: 'boolean' };
    if (type.isStringLiteral() || type.isNumberLiteral()) return { kind: 'literal', value: type.value };
    if (type.isUnion()) return union(type.types.filter(isPresent).map((option) => this.shape(option)));
    if (type.flags & ts.TypeFlags.StringLike) return { kind: 'string' };
    if (type.flags & ts.TypeFlags.NumberLike) return { kind: 'number' };
    // In a union with string, `string & {}` preserves the names of the known strings.
    if (type.isIntersection() && type.types.some(({ flags }) => flags & ts.TypeFlags.StringLike))
      return { kind: 'string' };
    if (checker.isArrayType(type) || checker.isTupleType(type))
      return {
        kind: 'list',
        entries: union(checker.getTypeArguments(type as ts.TypeReference).map((one) => this.shape(one))),
      };
    if (!(type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection))) return { kind: 'any' };
    const properties = checker.getPropertiesOfType(type);
    const members = checker.getIndexTypeOfType(type, ts.IndexKind.String);
    if (properties.length === 0)
      return members === undefined ? { kind: 'any' } : { kind: 'map', value: this.shape(members) };
    return { kind: 'object', id: type, fields: properties.map((property) => this.#field(property)) };
  }

  #field(property: ts.Symbol): Field {
    return {
      name: property.name,
      required: !(property.flags & ts.SymbolFlags.Optional),
      shape: () => this.shape(this.checker.getTypeOfSymbol(property)),
    };
  }
}

const isPresent = ({ flags }: ts.Type): boolean => !(flags & (ts.TypeFlags.Null | ts.TypeFlags.Undefined));

function union(options: readonly Shape[]): Shape {
  const flat = options.flatMap((option) => (option.kind === 'union' ? option.options : [option]));
  const isBoth = [true, false].every((value) => flat.some((one) => one.kind === 'literal' && one.value === value));
  const simple = isBoth
    ? [...flat.filter((one) => one.kind !== 'literal' || typeof one.value !== 'boolean'), { kind: 'boolean' } as const]
    : flat;
  const [first] = simple;
  return simple.length === 1 && first !== undefined ? first : { kind: 'union', options: simple };
}
