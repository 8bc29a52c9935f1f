// Parses a chat template to the library's syntax tree, and adds marks for decisions that are made once per template.
import * as jinja from '@huggingface/jinja';
import { TEMPLATE_LIMITS } from './template-limits.js';
import { valueOf, type Value } from './template-values.js';

export interface Node {
  readonly type: string;
}
export interface Program extends Node {
  readonly body: readonly Node[];
}

const BLANKS = new RegExp(`\\s{${TEMPLATE_LIMITS.blanksInARow + 1}}`);

/** Throws an error that describes the fault in the source. */
export function parseTemplate(source: string): Program {
  if (BLANKS.test(source))
    throw new Error(`more than ${TEMPLATE_LIMITS.blanksInARow} consecutive white-space characters`);
  const program = jinja.parse(jinja.tokenize(source, { lstrip_blocks: true, trim_blocks: true })) as Program;
  prepare(program);
  return program;
}

/** The parts of the library's syntax tree that are read here. prepare() sets `constant` and `plain`. */
export interface Prepared extends Node {
  constant?: Value;
  plain?: boolean; // a loop over a list with one variable and without break or continue
  size?: number; // nodes of a macro or call block, which the library walks through at its declaration
  value?: string | readonly Node[] | ReadonlyMap<Node, Node>;
  object?: Node;
  property?: Node;
  computed?: boolean;
  operator?: { value: string };
  left?: Node;
  right?: Node;
  test?: Node;
  body?: readonly Node[];
  alternate?: readonly Node[];
  iterable?: Node;
  operand?: Node;
  filter?: Node;
  loopvar?: Node & { value: string };
  callee?: Node & { value?: string };
  lhs?: Node;
  start?: Node;
  stop?: Node;
  step?: Node;
  defaultBlock?: readonly Node[];
}

/** Marks what can be decided once per template. */
function prepare(node: Prepared): { jumps: boolean; size: number } {
  let jumps = node.type === 'Break' || node.type === 'Continue'; // contains a break or continue
  let size = 1;
  if (node.type === 'StringLiteral' || node.type === 'IntegerLiteral') node.constant = valueOf(node.value);
  for (const child of Object.values(node)) {
    for (const one of Array.isArray(child) ? child : child instanceof Map ? [...child].flat() : [child]) {
      if (typeof one !== 'object' || one === null || !('type' in one) || one === node.constant) continue;
      const inside = prepare(one as Prepared);
      jumps ||= inside.jumps;
      size += inside.size;
    }
  }
  if (node.type === 'For')
    node.plain = !jumps && node.loopvar?.type === 'Identifier' && node.iterable?.type !== 'SelectExpression';
  if (node.type === 'Macro' || node.type === 'CallStatement') node.size = size;
  return { jumps, size };
}
