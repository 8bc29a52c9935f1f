// Mutations of an input: changed bytes, inserted literals from comparisons in the sources, parts of other inputs, and
// swapped JSON values. Pure except for the random numbers.
const STRANGE = [
  'null',
  'true',
  '-1',
  '0',
  '1e308',
  '-0',
  '9007199254740993',
  '1.5',
  '""',
  '[]',
  '{}',
  '"\\ud800"',
  '{"__proto__":{"a":1}}',
  '"constructor"',
  '[[[[]]]]',
  '{"":""}',
];

export class Mutator {
  /** `below(n)` returns a random integer in [0, n). */
  constructor(below, words) {
    this.below = below;
    this.words = words.map((word) => Buffer.from(word));
  }

  mutate(input, other) {
    let out = Buffer.from(input);
    for (let times = 1 + this.below(4); times > 0; times--) out = this.#json(out, other) ?? this.#bytes(out, other);
    return out.subarray(0, 1 << 16);
  }

  #bytes(input, other) {
    const at = this.below(input.length + 1),
      to = Math.min(input.length, at + 1 + this.below(this.below(8) === 0 ? 64 : 4));
    const spliced = (middle) => Buffer.concat([input.subarray(0, at), middle, input.subarray(to)]);
    const inserted = (middle) => Buffer.concat([input.subarray(0, at), middle, input.subarray(at)]);
    const word = () => (this.words.length === 0 ? Buffer.from('0') : this.words[this.below(this.words.length)]);
    const piece = () => {
      const from = this.below(other.length + 1);
      return other.subarray(from, from + 1 + this.below(64));
    };
    switch (this.below(9)) {
      case 0:
        return spliced(Buffer.alloc(0));
      case 1:
        return spliced(Buffer.from([this.below(256)]));
      case 2:
        return inserted(Buffer.from([this.below(256)]));
      case 3:
        return inserted(word());
      case 4:
        return spliced(word());
      case 5:
        return inserted(piece());
      case 6:
        return spliced(piece());
      case 7:
        return inserted(input.subarray(at, at + 1 + this.below(32)));
      default: {
        if (input.length === 0) return Buffer.from([this.below(256)]);
        const out = Buffer.from(input);
        out[this.below(out.length)] ^= 1 << this.below(8);
        return out;
      }
    }
  }

  /** Parses and mutates the input as JSON. Returns null if the input is not JSON, and occasionally even if it is. */
  #json(input, other) {
    if (this.below(3) === 0 || (input[0] !== 0x7b && input[0] !== 0x5b)) return null;
    let value;
    try {
      value = JSON.parse(input.toString('utf8'));
    } catch {
      return null;
    }
    const places = [];
    const walk = (holder) => {
      for (const key of Object.keys(holder)) {
        places.push([holder, key]);
        if (typeof holder[key] === 'object' && holder[key] !== null) walk(holder[key]);
      }
    };
    walk(value);
    if (places.length === 0) return null;
    const [holder, key] = places[this.below(places.length)];
    const word = this.words.length === 0 ? 'a' : this.words[this.below(this.words.length)].toString();
    const strange = () => JSON.parse(STRANGE[this.below(STRANGE.length)]);
    switch (this.below(8)) {
      case 0:
        holder[key] = strange();
        break;
      case 1:
        holder[key] = word;
        break;
      case 2:
        Array.isArray(holder) ? holder.splice(Number(key), 1) : delete holder[key];
        break;
      case 3: {
        // replace the value with another member's value
        const [from, name] = places[this.below(places.length)];
        holder[key] = structuredClone(from[name]);
        break;
      }
      case 4:
        if (Array.isArray(holder)) holder.push(structuredClone(holder[key]));
        else holder[word] = structuredClone(holder[key]);
        break;
      case 5:
        if (Array.isArray(holder)) holder.unshift(strange());
        else holder[word] = strange();
        break;
      case 6:
        if (typeof holder[key] === 'number')
          holder[key] = [-holder[key], holder[key] + 1, holder[key] * 1e6, 2 ** 31, 2 ** 53][this.below(5)];
        else if (typeof holder[key] === 'string')
          holder[key] = this.#bytes(Buffer.from(holder[key]), other).toString('utf8');
        break;
      default:
        holder[key] = { [word]: holder[key] };
    }
    const text = JSON.stringify(value);
    return text.length > 1 << 16 ? null : Buffer.from(text);
  }
}
