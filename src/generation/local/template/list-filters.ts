// The built-in filters for lists and dicts. As in Jinja2, filters that are often chained return an iterator.
import { bind, count } from './arguments.js';
import { equal, order } from './compare.js';
import { items, length, listed } from './iterate.js';
import { getAttribute, getItem, methodOf } from './members.js';
import type { Filter, Run } from './run.js';
import { str } from './print.js';
import {
  Dict,
  DictView,
  Lazy,
  Range,
  TemplateFault,
  Tuple,
  Undefined,
  isTrue,
  textOf,
  typeName,
  type Arguments,
  type Value,
} from './values.js';

type Getter = (item: Value) => Value;

const itself: Getter = (item) => item;

function ignoreCase(value: Value): Value {
  return textOf(value)?.toLowerCase() ?? value;
}

function partsOf(attribute: Value): Value[] {
  const path = textOf(attribute);
  if (path === null) return attribute === null ? [] : [attribute];
  return path.split('.').map((part) => (/^\d+$/.test(part) ? Number(part) : part));
}

/** Returns a function that reads an attribute of an item, or a nested attribute: `name` or `a.b.0`. */
export function attributeGetter(run: Run, attribute: Value, fallback: Value = null): Getter {
  const parts = partsOf(attribute);
  return (item) => {
    let value = item;
    for (const part of parts) {
      run.spend(1);
      value = getItem(run, value, part);
      if (fallback !== null && value instanceof Undefined) value = fallback;
    }
    return value;
  };
}

/**
 * Returns a function that computes an item's sort key: the item itself, or several attributes whose names are separated
 * by commas.
 */
function sortKey(run: Run, attribute: Value, caseSensitive: boolean): Getter {
  const paths = typeof attribute === 'string' ? attribute.split(',') : [attribute];
  const getters = paths.map((path) => attributeGetter(run, path));
  return (item) => getters.map((get) => (caseSensitive ? get(item) : ignoreCase(get(item))));
}

function sorted(run: Run, values: readonly Value[], key: Getter, reverse: boolean): Value[] {
  const keyed = values.map((value) => ({ value, key: key(value) }));
  run.spend(4 * keyed.length);
  // Equal items keep their order in both directions.
  keyed.sort((a, b) => (reverse ? order(run, b.key, a.key) : order(run, a.key, b.key)));
  return keyed.map(({ value }) => value);
}

const sort: Filter = (run, value, args) => {
  const [reverse = false, caseSensitive = false, attribute = null] = bind('sort', args, [
    'reverse',
    'case_sensitive',
    'attribute',
  ]);
  return sorted(run, listed(run, value), sortKey(run, attribute, isTrue(caseSensitive)), isTrue(reverse));
};

const dictSort: Filter = (run, value, args) => {
  const [caseSensitive = false, by = 'key', reverse = false] = bind('dictsort', args, [
    'case_sensitive',
    'by',
    'reverse',
  ]);
  if (by !== 'key' && by !== 'value') throw new TemplateFault('dictsort: "by" must be key or value');
  const dict = dictOf('dictsort', value);
  run.spend(16 * (1 + dict.size));
  const key: Getter = (entry) => {
    const part = (entry as Tuple).items[by === 'key' ? 0 : 1] as Value;
    return isTrue(caseSensitive) ? part : ignoreCase(part);
  };
  return sorted(run, [...new DictView(dict, 'items')], key, isTrue(reverse));
};

function dictOf(what: string, value: Value): Dict {
  if (value instanceof Undefined) throw value.fault();
  if (!(value instanceof Dict)) throw new TemplateFault(`${what}: '${typeName(value)}' is not a dict`);
  return value;
}

const unique: Filter = (run, value, args) => {
  const [caseSensitive = false, attribute = null] = bind('unique', args, ['case_sensitive', 'attribute']);
  const get = attributeGetter(run, attribute);
  return new Lazy(
    (function* () {
      const seen = new Dict();
      for (const item of items(run, value)) {
        const key = isTrue(caseSensitive) ? get(item) : ignoreCase(get(item));
        run.spend(4);
        run.spendText(textOf(key)?.length ?? 1);
        if (seen.has(key)) continue;
        seen.set(key, true);
        yield item;
      }
    })(),
  );
};

const extreme =
  (name: 'min' | 'max'): Filter =>
  (run, value, args) => {
    const [caseSensitive = false, attribute = null] = bind(name, args, ['case_sensitive', 'attribute']);
    const get = attributeGetter(run, attribute);
    let best: { item: Value; key: Value } | null = null;
    for (const item of items(run, value)) {
      const key = isTrue(caseSensitive) ? get(item) : ignoreCase(get(item));
      run.spend(1);
      if (best === null || (name === 'min' ? order(run, key, best.key) < 0 : order(run, key, best.key, '>') > 0))
        best = { item, key };
    }
    return best?.item ?? (best === null ? new Undefined(() => 'No aggregated item, sequence was empty.') : null);
  };

const first: Filter = (run, value, args) => {
  bind('first', args, []);
  const text = textOf(value);
  if (text !== null) return [...text.slice(0, 2)][0] ?? empty('first');
  const found = items(run, value)[Symbol.iterator]().next();
  return found.done === true ? empty('first') : found.value;
};

const last: Filter = (run, value, args) => {
  bind('last', args, []);
  if (value instanceof Lazy) throw new TemplateFault(`'${value.typeName}' object is not reversible`);
  const text = textOf(value);
  if (text !== null) return [...text.slice(-2)].at(-1) ?? empty('last');
  const all = listed(run, value);
  return all.length === 0 ? empty('last') : (all.at(-1) as Value);
};

function empty(which: string): Undefined {
  return new Undefined(() => `No ${which} item, sequence was empty.`);
}

const reverse: Filter = (run, value, args) => {
  bind('reverse', args, []);
  const text = textOf(value);
  if (text !== null) {
    run.spend(1 + text.length);
    return Array.from(text).reverse().join('');
  }
  if (value instanceof Range) return new Lazy([...items(run, value)].reverse().values(), 'range_iterator');
  const all = [...listed(run, value)].reverse();
  run.spend(all.length);
  return value instanceof Lazy ? all : new Lazy(all.values(), 'list_reverseiterator');
};

/** For a falsy value, filters that are applied to each item return no items, even if the value is not iterable. */
const lazily = (run: Run, value: Value, each: () => (item: Value) => readonly Value[]): Lazy =>
  new Lazy(
    (function* () {
      if (!isTrue(value)) return;
      const work = each();
      for (const item of items(run, value)) {
        run.spend(2);
        yield* work(item);
      }
    })(),
  );

const map: Filter = (run, value, args) =>
  lazily(run, value, () => {
    const { positional, named } = args;
    if (positional.length === 0 && named?.has('attribute')) {
      const [attribute = null, fallback = null] = bind('map', args, ['attribute', 'default']);
      const get = attributeGetter(run, attribute, fallback);
      return (item) => [get(item)];
    }
    const name = nameOf('map', positional[0]);
    return (item) => [run.language.callFilter(run, name, item, { positional: positional.slice(1), named })];
  });

function nameOf(what: string, value: Value | undefined): string {
  const name = textOf(value);
  if (name === null) throw new TemplateFault(`${what}: the name of a filter or test is missing`);
  return name;
}

const select =
  (name: string, wanted: boolean, byAttribute: boolean): Filter =>
  (run, value, args) =>
    lazily(run, value, () => {
      const { positional, named } = args;
      if (byAttribute && positional.length === 0)
        throw new TemplateFault(`${name}: the name of an attribute is missing`);
      const get = byAttribute ? attributeGetter(run, positional[0] as Value) : itself;
      const rest = positional.slice(byAttribute ? 1 : 0);
      const test = testOf(run, name, rest, named);
      return (item) => (test(get(item)) === wanted ? [item] : []);
    });

function testOf(run: Run, what: string, args: readonly Value[], named: Arguments['named']): (item: Value) => boolean {
  if (args.length === 0) return isTrue;
  const name = nameOf(what, args[0]);
  const rest = { positional: args.slice(1), named };
  return (item) => run.language.callTest(run, name, item, rest);
}

const batch: Filter = (run, value, args) => {
  const [size, fill = null] = bind('batch', args, ['linecount', 'fill_with'], 1);
  const each = count('batch', size, 0);
  return new Lazy(
    (function* () {
      let row: Value[] = [];
      for (const item of items(run, value)) {
        run.spend(1);
        if (row.length === each) {
          yield row;
          row = [];
        }
        row.push(item);
      }
      if (row.length === 0) return;
      if (fill !== null) run.spend(Math.max(0, each - row.length));
      yield fill === null ? row : [...row, ...Array.from({ length: Math.max(0, each - row.length) }, () => fill)];
    })(),
  );
};

const slice: Filter = (run, value, args) => {
  const [slices, fill = null] = bind('slice', args, ['slices', 'fill_with'], 1);
  const parts = count('slice', slices, 1);
  return new Lazy(
    (function* () {
      const all = listed(run, value);
      if (parts === 0) throw new TemplateFault('integer division or modulo by zero');
      const each = Math.floor(all.length / parts);
      const larger = all.length % parts;
      for (let index = 0, start = 0; index < parts; index++) {
        const end = start + each + (index < larger ? 1 : 0);
        const part = all.slice(start, end);
        run.spend(2 + part.length);
        yield fill !== null && index >= larger ? [...part, fill] : part;
        start = end;
      }
    })(),
  );
};

const groupBy: Filter = (run, value, args) => {
  const [attribute = null, fallback = null, caseSensitive = false] = bind(
    'groupby',
    args,
    ['attribute', 'default', 'case_sensitive'],
    1,
  );
  const get = attributeGetter(run, attribute, fallback);
  const key: Getter = isTrue(caseSensitive) ? get : (item) => ignoreCase(get(item));
  const groups: { key: Value; list: Value[] }[] = [];
  for (const item of sorted(run, listed(run, value), key, false)) {
    const own = key(item);
    const group = groups.at(-1);
    if (group !== undefined && equal(run, group.key, own)) group.list.push(item);
    else groups.push({ key: own, list: [item] });
  }
  return groups.map(({ list }) => new Tuple([get(list[0] as Value), list], ['grouper', 'list']));
};

const join: Filter = (run, value, args) => {
  const [separator = '', attribute = null] = bind('join', args, ['d', 'attribute']);
  const between = str(run, separator);
  const get = attribute === null ? itself : attributeGetter(run, attribute);
  const parts: string[] = [];
  for (const item of items(run, value)) {
    const part = str(run, get(item));
    run.spend(1 + ((part.length + between.length) >> 5));
    parts.push(part);
  }
  return parts.join(between);
};

const toList: Filter = (run, value, args) => {
  bind('list', args, []);
  const all = listed(run, value);
  run.spend(all.length >> 4);
  return [...all];
};

const itemsOf: Filter = (run, value, args) => {
  bind('items', args, []);
  return new Lazy(
    (function* () {
      if (value instanceof Undefined) return;
      if (!(value instanceof Dict)) throw new TemplateFault('Can only get item pairs from a mapping.');
      yield* items(run, new DictView(value, 'items'));
    })(),
  );
};

const attr: Filter = (run, value, args) => {
  const [name = null] = bind('attr', args, ['name'], 1);
  const attribute = textOf(name);
  if (attribute === null) throw new TemplateFault('attribute name must be string');
  if (value instanceof Undefined) throw value.fault();
  const known =
    methodOf(value, attribute) !== undefined ||
    (value instanceof Object && !Array.isArray(value) && value.attribute(attribute) !== undefined);
  return known
    ? getAttribute(run, value, attribute)
    : new Undefined(() => `'${typeName(value)} object' has no attribute '${attribute}'`);
};

const size: Filter = (run, value, args) => {
  bind('length', args, []);
  return length(run, value);
};

export const LIST_FILTERS: Readonly<Record<string, Filter>> = {
  attr,
  batch,
  count: size,
  dictsort: dictSort,
  first,
  groupby: groupBy,
  items: itemsOf,
  join,
  last,
  length: size,
  list: toList,
  map,
  max: extreme('max'),
  min: extreme('min'),
  reject: select('reject', false, false),
  rejectattr: select('rejectattr', false, true),
  reverse,
  select: select('select', true, false),
  selectattr: select('selectattr', true, true),
  slice,
  sort,
  unique,
};
