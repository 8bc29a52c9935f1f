// The methods of dicts, lists, tuples, numbers and bytes.
import { bind, positional } from './arguments.js';
import { equal } from './compare.js';
import { repr } from './print.js';
import type { Method, Run } from './run.js';
import {
  type Bytes,
  Dict,
  DictView,
  Float,
  TemplateFault,
  Tuple,
  isInteger,
  type Arguments,
  type List,
  type Value,
} from './values.js';

const view =
  (kind: DictView['kind']): Method =>
  (_run, self, args) => {
    positional(kind, args, 0);
    return new DictView(self as Dict, kind);
  };

export const DICT_METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  [
    'get',
    (run, self, args) => {
      const [key = null, fallback = null] = positional('get', args, 2, 1);
      if (typeof key === 'string') run.spendText(key.length);
      const value = (self as Dict).get(key);
      return value === undefined ? fallback : value;
    },
  ],
  ['items', view('items')],
  ['keys', view('keys')],
  ['values', view('values')],
  [
    'copy',
    (run, self, args) => {
      positional('copy', args, 0);
      run.spend((self as Dict).size);
      return (self as Dict).copy();
    },
  ],
  [
    'fromkeys',
    (run, _self, args) => {
      const [keys = null, value = null] = positional('fromkeys', args, 2, 1);
      const dict = new Dict();
      for (const key of Array.isArray(keys) ? keys : keys instanceof Tuple ? keys.items : []) {
        run.spend(1);
        dict.set(key, value);
      }
      return dict;
    },
  ],
]);

/** Methods that modify a dict. The sandbox refuses them. */
export const UNSAFE_DICT: ReadonlySet<string> = new Set(['clear', 'pop', 'popitem', 'setdefault', 'update']);
/** Methods that modify a list. The sandbox refuses them. */
export const UNSAFE_LIST: ReadonlySet<string> = new Set(['append', 'reverse', 'insert', 'sort', 'extend', 'remove']);

function countIn(run: Run, items: readonly Value[], sought: Value): number {
  return items.reduce((sum: number, item) => sum + Number(equal(run, item, sought)), 0);
}

function indexIn(run: Run, items: readonly Value[], args: Arguments, kind: string): number {
  const [sought = null, start = 0, stop = items.length] = positional('index', args, 3, 1);
  const place = (value: Value): number => {
    const index = isInteger(value) ? Number(value) : 0;
    return index < 0 ? Math.max(0, index + items.length) : index;
  };
  const end = Math.min(items.length, place(stop));
  for (let index = place(start); index < end; index++) if (equal(run, items[index] as Value, sought)) return index;
  throw new TemplateFault(`${repr(run, sought)} is not in ${kind}`);
}

export const LIST_METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  [
    'copy',
    (run, self, args) => {
      positional('copy', args, 0);
      run.spend((self as List).length >> 2);
      return [...(self as List)];
    },
  ],
  ['count', (run, self, args) => countIn(run, self as List, positional('count', args, 1, 1)[0] as Value)],
  ['index', (run, self, args) => indexIn(run, self as List, args, 'list')],
  [
    'pop',
    (run, self, args) => {
      const list = self as List;
      const [index = -1] = positional('pop', args, 1);
      if (!isInteger(index)) throw new TemplateFault('pop(): the index must be an integer');
      const at = Number(index) < 0 ? Number(index) + list.length : Number(index);
      if (at < 0 || at >= list.length)
        throw new TemplateFault(list.length === 0 ? 'pop from empty list' : 'pop index out of range');
      run.changedInput = true;
      run.spend((list.length - at) >> 2);
      return list.splice(at, 1)[0] as Value;
    },
  ],
  [
    'clear',
    (run, self, args) => {
      positional('clear', args, 0);
      run.changedInput = true;
      (self as List).length = 0;
      return null;
    },
  ],
]);

export const TUPLE_METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['count', (run, self, args) => countIn(run, (self as Tuple).items, positional('count', args, 1, 1)[0] as Value)],
  ['index', (run, self, args) => indexIn(run, (self as Tuple).items, args, 'tuple')],
]);

export const NUMBER_METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  [
    'is_integer',
    (_run, self, args) => {
      positional('is_integer', args, 0);
      return self instanceof Float ? Number.isInteger(self.value) : true;
    },
  ],
  [
    'bit_length',
    (run, self, args) => {
      positional('bit_length', args, 0);
      if (!isInteger(self)) throw new TemplateFault("'float' object has no attribute 'bit_length'");
      const binary = BigInt(self).toString(2).replace('-', '');
      run.spendText(binary.length);
      return binary === '0' ? 0 : binary.length;
    },
  ],
]);

export const BYTES_METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  [
    'decode',
    (run, self, args) => {
      bind('decode', args, ['encoding', 'errors']);
      const { bytes } = self as Bytes;
      run.spendText(bytes.length);
      return new TextDecoder().decode(bytes);
    },
  ],
  [
    'hex',
    (run, self, args) => {
      positional('hex', args, 0);
      run.spend((self as Bytes).bytes.length);
      return Buffer.from((self as Bytes).bytes).toString('hex');
    },
  ],
]);
