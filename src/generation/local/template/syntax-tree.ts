// The syntax tree of a chat template, as the parser builds it.
import type { Value } from './values.js';

export type Expression =
  | { readonly type: 'constant'; readonly value: Value }
  | { readonly type: 'name'; readonly name: string }
  | { readonly type: 'attribute'; readonly object: Expression; readonly name: string }
  | { readonly type: 'item'; readonly object: Expression; readonly index: Expression }
  | { readonly type: 'slice'; readonly object: Expression; readonly bounds: readonly (Expression | null)[] }
  | { readonly type: 'call'; readonly callee: Expression; readonly args: CallArguments }
  | Filter
  | { readonly type: 'test'; readonly name: string; readonly operand: Expression; readonly args: CallArguments }
  | { readonly type: 'unary'; readonly operator: '-' | '+' | 'not'; readonly operand: Expression }
  | { readonly type: 'binary'; readonly operator: Arithmetic; readonly left: Expression; readonly right: Expression }
  | { readonly type: 'logical'; readonly operator: 'and' | 'or'; readonly left: Expression; readonly right: Expression }
  | { readonly type: 'compare'; readonly first: Expression; readonly rest: readonly Comparison[] }
  | { readonly type: 'concat'; readonly parts: readonly Expression[] }
  | {
      readonly type: 'conditional';
      readonly test: Expression;
      readonly then: Expression;
      readonly otherwise: Expression | null;
    }
  | { readonly type: 'list'; readonly items: readonly Expression[] }
  | { readonly type: 'tuple'; readonly items: readonly Expression[] }
  | { readonly type: 'dict'; readonly entries: readonly (readonly [key: Expression, value: Expression])[] };

export type Arithmetic = '+' | '-' | '*' | '/' | '//' | '%' | '**';

export interface Comparison {
  readonly operator: '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'not in';
  readonly operand: Expression;
}

export interface CallArguments {
  readonly positional: readonly Expression[];
  readonly named: readonly (readonly [name: string, value: Expression])[];
  /** `*args` and `**kwargs`. */
  readonly list: Expression | null;
  readonly dict: Expression | null;
}

/** `operand` is null for a filter that receives the text of a block. */
export interface Filter {
  readonly type: 'filter';
  readonly name: string;
  readonly operand: Expression | null;
  readonly args: CallArguments;
}

export type Target =
  | { readonly type: 'name'; readonly name: string }
  | { readonly type: 'attribute'; readonly namespace: string; readonly name: string }
  | { readonly type: 'tuple'; readonly items: readonly Target[] };

export interface Parameter {
  readonly name: string;
  readonly fallback: Expression | null;
}

export type Statement =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'print'; readonly values: readonly Expression[] }
  | {
      readonly type: 'if';
      readonly branches: readonly { readonly test: Expression; readonly body: Block }[];
      readonly otherwise: Block;
    }
  | For
  | { readonly type: 'set'; readonly target: Target; readonly value: Expression }
  | { readonly type: 'set-block'; readonly target: Target; readonly filter: Filter | null; readonly body: Block }
  | Macro
  | { readonly type: 'call-block'; readonly call: Expression & { type: 'call' }; readonly caller: Macro }
  | { readonly type: 'filter-block'; readonly filter: Filter; readonly body: Block }
  | {
      readonly type: 'with';
      readonly targets: readonly Target[];
      readonly values: readonly Expression[];
      readonly body: Block;
    }
  | { readonly type: 'scope'; readonly body: Block }
  | { readonly type: 'autoescape'; readonly enabled: Expression; readonly body: Block }
  | { readonly type: 'block'; readonly name: string; readonly scoped: boolean; readonly body: Block }
  | { readonly type: 'break' }
  | { readonly type: 'continue' }
  /** include, extends and import. They always fail, because there are no other templates. */
  | { readonly type: 'load'; readonly tag: string };

export type Block = readonly (Statement & { readonly line: number })[];

export interface For {
  readonly type: 'for';
  readonly target: Target;
  readonly iterable: Expression;
  readonly filter: Expression | null;
  readonly recursive: boolean;
  readonly body: Block;
  readonly otherwise: Block;
}

export interface Macro {
  readonly type: 'macro';
  readonly name: string;
  readonly parameters: readonly Parameter[];
  readonly body: Block;
  /** The implicit names that the macro reads. */
  readonly reads: { readonly caller: boolean; readonly varargs: boolean; readonly kwargs: boolean };
}
