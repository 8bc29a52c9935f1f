// The cost in steps of operations that the template library runs as a whole: filters, methods of strings and mappings,
// and loops. Each cost is an upper estimate and, for operations that take the product of two sizes, close to the real
// cost.
import { piecesSteps, type RenderBudget, searchSteps, textSteps } from './template-limits.js';
import type { Arguments, Value } from './template-values.js';

/**
 * Cost of converting a mapping entry to a list of two, or of creating the scopes and `loop` variable of a loop item.
 */
const ITEM_STEPS = 16;

/** Factor for serializing a value as JSON. Escapes make it up to six times longer. */
export const JSON_TIMES = 4;
/** Factor for escaping characters one by one or comparing with a locale. */
const SLOW_TIMES = 32;

const items = (value: Value): readonly Value[] => value.value as readonly Value[];
const entries = (value: Value): ReadonlyMap<string, Value> => value.value as ReadonlyMap<string, Value>;
const text = (value: Value | undefined): string => (value?.type === 'StringValue' ? (value.value as string) : '');
const number = (value: Value | undefined, fallback: number): number =>
  typeof value?.value === 'number' ? value.value : fallback;

function isList({ type }: Value): boolean {
  return type === 'ArrayValue' || type === 'TupleValue';
}

function isMapping({ type }: Value): boolean {
  return type === 'ObjectValue' || type === 'KeywordArgumentsValue' || type === 'NamespaceValue';
}

interface Deep {
  /** How often every value is processed. */
  times?: number;
  /** Characters before each item, and characters that each level adds to them. */
  lead?: number;
  indent?: number;
}

/** Charges for all content of a value, repeatedly if it occurs repeatedly. Returns false if part of it is mutable. */
export function spendDeep(budget: RenderBudget, value: Value, { times = 1, lead = 0, indent = 0 }: Deep = {}): boolean {
  let fixed = value.type !== 'NamespaceValue';
  if (isList(value) || isMapping(value)) {
    const inside = { times, lead: lead + indent, indent };
    budget.spend(times * piecesSteps(1, inside.lead));
    if (isList(value)) {
      for (const item of items(value)) {
        budget.spend(times * piecesSteps(1, inside.lead));
        fixed = spendDeep(budget, item, inside) && fixed;
      }
    } else {
      for (const [key, item] of entries(value)) {
        budget.spend(times * (textSteps(key.length) + piecesSteps(1, inside.lead)));
        fixed = spendDeep(budget, item, inside) && fixed;
      }
    }
  } else {
    budget.spend(times * textSteps(text(value).length));
  }
  return fixed;
}

/** Counts the parts of a text between `separator`, one step each. */
function pieces(budget: RenderBudget, whole: string, separator: string): number {
  budget.spend(searchSteps(whole.length, separator.length));
  let count = 1;
  for (let at = whole.indexOf(separator); at !== -1; at = whole.indexOf(separator, at + separator.length)) {
    budget.spend(1);
    count++;
  }
  return count;
}

function replaceSteps(budget: RenderBudget, whole: string, old: Value | undefined, by: Value | undefined): number {
  const sought = text(old);
  const count = sought === '' ? whole.length + 1 : pieces(budget, whole, sought) - 1;
  // the search text becomes a regular expression
  return textSteps(whole.length) + sought.length + 2 * piecesSteps(count, text(by).length);
}

function sortTimes(length: number): number {
  return 2 * Math.ceil(Math.log2(length + 2));
}

export function filterSteps(budget: RenderBudget, operand: Value, name: string, [args, keywords]: Arguments): number {
  switch (name) {
    case 'safe':
    case 'list':
    case 'first':
    case 'last':
    case 'length':
    case 'default':
    case 'abs':
    case 'bool':
      return 1;
    case 'tojson': {
      const slow = [...keywords.values()].filter((value) => value.value === true).length; // ensure_ascii, sort_keys
      const separators = keywords.get('separators');
      const between =
        separators !== undefined && isList(separators)
          ? items(separators).reduce((sum, one) => sum + text(one).length, 0)
          : 0;
      spendDeep(budget, operand, {
        times: JSON_TIMES + slow * SLOW_TIMES,
        lead: between,
        indent: number(keywords.get('indent'), 0),
      });
      return 1;
    }
    case 'join': {
      const separator = text(args[0] ?? keywords.get('separator')).length;
      if (!isList(operand)) return piecesSteps(2 * text(operand).length, separator);
      spendDeep(budget, operand);
      return piecesSteps(items(operand).length, separator);
    }
    case 'string':
      spendDeep(budget, operand);
      return 1;
    case 'sort':
    case 'dictsort': {
      const length = isList(operand) ? items(operand).length : isMapping(operand) ? entries(operand).size : 0;
      spendDeep(budget, operand, { times: sortTimes(length), lead: text(args[2] ?? keywords.get('attribute')).length });
      return 1;
    }
    case 'replace':
      return operand.type === 'StringValue' ? replaceSteps(budget, operand.value as string, args[0], args[1]) : 1;
    case 'indent':
      return (
        piecesSteps(2 * pieces(budget, text(operand), '\n'), number(args[0] ?? keywords.get('width'), 4)) +
        textSteps(text(operand).length)
      );
    case 'title':
      return text(operand).length + 1;
    default: {
      if (isMapping(operand)) return ITEM_STEPS * (1 + entries(operand).size);
      if (!isList(operand)) return textSteps(text(operand).length);
      // "unique" reads the strings in a list. Other filters read their arguments once per item.
      const given = [...args, ...keywords.values()].reduce((sum, value) => sum + text(value).length, 0);
      const inside =
        name === 'unique' ? items(operand).reduce((sum, value) => sum + textSteps(text(value).length), 0) : 0;
      return inside + 2 * piecesSteps(items(operand).length, given);
    }
  }
}

export function methodSteps(budget: RenderBudget, object: Value, name: string, args: readonly Value[]): number {
  if (object.type !== 'StringValue') {
    if (name === 'get') return 2 + textSteps(text(args[0]).length);
    if (name === 'dictsort') return filterSteps(budget, object, name, [[], new Map()]);
    return ITEM_STEPS * (1 + entries(object).size);
  }
  const whole = object.value as string;
  const [first] = args;
  switch (name) {
    case 'replace':
      return replaceSteps(budget, whole, first, args[1]);
    case 'split':
      // Each word is matched separately.
      return (
        textSteps(whole.length) +
        (first?.type === 'StringValue'
          ? 4 * (text(first) === '' ? 1 : pieces(budget, whole, text(first)))
          : whole.length)
      );
    case 'startswith':
    case 'endswith': {
      const given = first !== undefined && isList(first) ? items(first) : first === undefined ? [] : [first];
      return given.reduce((sum, one) => sum + textSteps(text(one).length), textSteps(whole.length));
    }
    case 'title':
      return whole.length + 1;
    default:
      return textSteps(whole.length);
  }
}

/** The cost of a loop without its body. */
export function loopSteps(iterable: Value): number {
  return (
    ITEM_STEPS * (1 + (isList(iterable) ? items(iterable).length : isMapping(iterable) ? entries(iterable).size : 0))
  );
}
