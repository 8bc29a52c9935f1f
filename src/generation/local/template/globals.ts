// The functions that every chat template can call: Jinja2's built-in functions, and two that transformers adds.
import { bind, positional } from './arguments.js';
import { items } from './iterate.js';
import { TEMPLATE_LIMITS, TemplateError } from './limits.js';
import { str } from './print.js';
import type { Run } from './run.js';
import { strftime } from './strftime.js';
import {
  Callable,
  Dict,
  Namespace,
  PythonObject,
  Range,
  TemplateFault,
  Tuple,
  Undefined,
  isInteger,
  textOf,
  type Arguments,
  type Value,
} from './values.js';

type Global = (run: Run, args: Arguments) => Value;

const range: Global = (run, args) => {
  const bounds = positional('range', args, 3, 1).map((value) => {
    if (!isInteger(value)) throw new TemplateFault('range(): arguments must be integers');
    return Number(value);
  });
  const [first = 0, second, step = 1] = bounds;
  if (step === 0) throw new TemplateFault('range(): the step must not be zero');
  const made = second === undefined ? new Range(0, first, 1) : new Range(first, second, step);
  if (!(made.length <= TEMPLATE_LIMITS.range))
    throw new TemplateFault(`range(): more than ${TEMPLATE_LIMITS.range} numbers`);
  run.spend(1);
  return made;
};

/** Returns the entries that dict() and namespace() accept: a dict or a list of pairs, and then named values. */
function entriesOf(run: Run, what: string, args: Arguments): Dict {
  const dict = new Dict();
  const [source] = args.positional;
  if (args.positional.length > 1)
    throw new TemplateFault(`${what} expected at most 1 argument, got ${args.positional.length}`);
  if (source instanceof Dict) {
    run.spend(source.size);
    for (const [key, value] of source.entries()) dict.set(key, value);
  } else if (source !== undefined) {
    if (source instanceof Undefined) throw source.fault();
    for (const pair of items(run, source)) {
      const [key, value, ...rest] = [...items(run, pair)];
      run.spend(4);
      if (key === undefined || value === undefined || rest.length > 0)
        throw new TemplateFault(`${what}: an element is not a pair of a key and a value`);
      dict.set(key, value);
    }
  }
  for (const [name, value] of args.named ?? []) dict.set(name, value);
  return dict;
}

const namespace: Global = (run, args) => {
  const made = new Namespace();
  for (const [name, value] of entriesOf(run, 'namespace', args).entries()) {
    run.spend(1);
    made.attributes.set(str(run, name), value);
  }
  return made;
};

class Cycler extends PythonObject {
  readonly typeName = 'Cycler';
  #at = 0;

  constructor(private readonly values: readonly Value[]) {
    super();
  }

  override attribute(name: string): Value | undefined {
    switch (name) {
      case 'current':
        return this.values[this.#at];
      case 'next':
        return new Callable('next', () => {
          const value = this.values[this.#at] as Value;
          this.#at = (this.#at + 1) % this.values.length;
          return value;
        });
      case 'reset':
        return new Callable('reset', () => {
          this.#at = 0;
          return null;
        });
      case 'items':
        return new Tuple(this.values);
      default:
        return undefined;
    }
  }
}

const cycler: Global = (_run, { positional: values }) => {
  if (values.length === 0) throw new TemplateFault('at least one item has to be provided');
  return new Cycler(values);
};

/** Implements joiner(): returns a function that returns an empty string the first time and a separator after that. */
const joiner: Global = (_run, args) => {
  const [separator = ', '] = bind('joiner', args, ['sep']);
  let used = false;
  return new Callable(
    'joiner',
    () => {
      if (used) return separator;
      used = true;
      return '';
    },
    'Joiner',
  );
};

const lipsum: Global = () => {
  throw new TemplateFault('lipsum() is not supported: a template must render the same text each time');
};

const raiseException: Global = (run, args) => {
  const [message = null] = bind('raise_exception', args, ['message'], 1);
  throw new TemplateError(textOf(message) ?? str(run, message));
};

const strftimeNow: Global = (run, args) => {
  const [format = null] = bind('strftime_now', args, ['format'], 1);
  const text = textOf(format);
  if (text === null) throw new TemplateFault('strftime_now(): the argument must be a string');
  return strftime(text, run.now());
};

const FUNCTIONS: Readonly<Record<string, { call: Global; type: Callable['typeName'] }>> = {
  range: { call: range, type: 'type' },
  dict: { call: (run, args) => entriesOf(run, 'dict', args), type: 'type' },
  namespace: { call: namespace, type: 'type' },
  cycler: { call: cycler, type: 'type' },
  joiner: { call: joiner, type: 'type' },
  lipsum: { call: lipsum, type: 'function' },
  raise_exception: { call: raiseException, type: 'function' },
  strftime_now: { call: strftimeNow, type: 'function' },
};

export const isTemplateFunction = (name: string): boolean => Object.hasOwn(FUNCTIONS, name);

/** Returns the function with that name, or undefined. */
export function globalNamed(run: Run, name: string): Callable | undefined {
  const found = isTemplateFunction(name) ? FUNCTIONS[name] : undefined;
  return found === undefined ? undefined : new Callable(name, (args) => found.call(run, args), found.type);
}
