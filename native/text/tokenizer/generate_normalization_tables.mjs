// Writes the tables of normalization.h:
//   node generate_normalization_tables.mjs canonical > normalization_canonical.cc
//   node generate_normalization_tables.mjs compatible > normalization_compatible.cc
// The data come from the JavaScript engine's own Unicode tables, without the code points that the reference lacks.
// The reference is Hugging Face's `tokenizers` library. It normalizes with unicode-normalization-alignments 0.1.12,
// which has the decompositions of Unicode 12.0 and older combining classes. `npm run test:tokenizers` compares every
// code point with that library.

if (process.versions.unicode !== '17.0') throw new Error(`needs Unicode 17.0 (this Node.js has ${process.versions.unicode})`);

/** Code points that have no combining class in the reference library. */
const NO_CLASS = codePoints(`7fd 897-89f 8ca-8d3 9fe c3c d3b-d3c eba 1715 1abf-1add 1ae0-1aeb 1df6-1dfa a82c 10d24-10d27
  10d69-10d6d 10eab-10eac 10efa-10efb 10efd-10eff 10f46-10f50 10f82-10f85 11070 1133b 113ce-113d0 1145e 11839-1183a
  1193d-1193e 11943 119e0 11a34 11a47 11a99 11d42 11d44-11d45 11d97 11f41-11f42 1612f 16ff0-16ff1 1e08f 1e130-1e136
  1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef 1e6e3 1e6e6 1e6ee-1e6ef 1e6f5`);
/** Code points that do not decompose in the reference library. */
const WHOLE = codePoints(`32ff a7f1-a7f4 ab69 105c9 105e4 10781-107ba 11383 11385 1138e 11391 113c5 113c7-113c8 11938
  16121-16128 16d68-16d6a 1ccd6-1ccf9 1e030-1e06d 1f16c 1fbf0-1fbf9`);

function codePoints(text) {
  return new Set(text.split(/\s+/).flatMap((range) => {
    const [first, last = first] = range.split('-').map((hex) => parseInt(hex, 16));
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  }));
}

const all = Array.from({ length: 0x110000 }, (_, c) => c).filter((c) => c < 0xd800 || c > 0xdfff);
const isHangul = (c) => c >= 0xac00 && c <= 0xd7a3;   // computed
const text = (...codes) => String.fromCodePoint(...codes);
const codesOf = (characters) => Array.from(characters, (character) => character.codePointAt(0));
const full = (c, form) => (WHOLE.has(c) ? [c] : codesOf(text(c).normalize(form)));

// The JavaScript engine does not expose combining classes, but normalization sorts by them. 0x334 has the lowest class,
// 0x345 the highest.
const swaps = (a, b) => text(a, b).normalize('NFD') !== text(a, b);   // class of a > class of b > 0
const marks = all.filter((c) => text(c).normalize('NFD') === text(c) && !NO_CLASS.has(c) && (swaps(c, 0x334) || swaps(0x345, c)));
marks.sort((a, b) => (swaps(a, b) ? 1 : swaps(b, a) ? -1 : a - b));
const classOf = new Map();
for (const [i, mark] of marks.entries()) {
  const before = marks[i - 1];
  classOf.set(mark, before === undefined ? 1 : classOf.get(before) + (swaps(mark, before) ? 1 : 0));
}

/**
 * Groups neighboring code points whose decompositions have the same length. Format: the first code point, the number of
 * code points, the length, then the decompositions.
 */
function blocks(entries) {
  const out = [];
  for (let i = 0; i < entries.length;) {
    const length = entries[i][1].length;
    let end = i + 1;
    while (end < entries.length && entries[end][0] === entries[end - 1][0] + 1 && entries[end][1].length === length) end++;
    out.push(entries[i][0], end - i, length, ...entries.slice(i, end).flatMap(([, codes]) => codes));
    i = end;
  }
  return out;
}

const differs = (a, b) => a.length !== b.length || a.some((c, i) => c !== b[i]);
const canonical = all.filter((c) => !isHangul(c)).map((c) => [c, full(c, 'NFD')]).filter(([c, codes]) => differs([c], codes));
const compatible = all.filter((c) => !isHangul(c)).map((c) => [c, full(c, 'NFKD')]).filter(([c, codes]) => differs(codes, full(c, 'NFD')));
/** Code points that are never the result of composition, although they decompose into two or more code points. */
const excluded = canonical.filter(([c, codes]) => codes.length > 1 && text(...codes).normalize('NFC') !== text(c)).map(([c]) => c);

/** first, last, class */
function classRuns() {
  const runs = [];
  for (const mark of [...marks].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last && last[1] === mark - 1 && last[2] === classOf.get(mark)) last[1] = mark;
    else runs.push([mark, mark, classOf.get(mark)]);
  }
  return runs.flat();
}

function list(name, numbers) {
  const lines = [];
  let line = '   ';
  for (const number of numbers) {
    const entry = ` ${number < 10 ? number : `0x${number.toString(16).toUpperCase()}`},`;
    if (line.length + entry.length > 118) {
      lines.push(line);
      line = '   ';
    }
    line += entry;
  }
  return `constexpr char32_t ${name}[] = {\n${[...lines, line].join('\n')}\n};\n`;
}

const which = process.argv[2];
const tables = which === 'canonical'
  ? [['kCombiningClasses', 'combining_class_table', classRuns()], ['kCanonical', 'canonical_table', blocks(canonical)], ['kNeverComposed', 'never_composed_table', excluded]]
  : [['kCompatible', 'compatible_table', blocks(compatible)]];
process.stdout.write(`// Generated by generate_normalization_tables.mjs ${which}; do not edit.
#include "text/tokenizer/normalization_tables.h"

namespace monolith {
namespace {

${tables.map(([name, , numbers]) => list(name, numbers)).join('\n')}
}  // namespace

${tables.map(([name, reader]) => `std::span<const char32_t> ${reader}() { return ${name}; }`).join('\n')}

}  // namespace monolith
`);
