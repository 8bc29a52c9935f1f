// Quick builds compile several files of a folder together (native/CMakeLists.txt). If one file's anonymous namespace
// declares a constant or type with the same name as a declaration in an outer namespace, the other files would use the
// wrong declaration without an error.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';

const native = join(import.meta.dirname, '..', '..', '..', 'native');
const read = (file: string): string => readFileSync(join(native, file), 'utf8');
const files = readdirSync(native, { recursive: true, encoding: 'utf8' });

/** Names of the constants and types that are declared at the start of a line. */
function namesIn(text: string): string[] {
  return text.split('\n').flatMap((line) => {
    const type = /^(?:struct|class|enum class|using) (\w+)\b(?!.*;\s*$)/.exec(line)?.[1];
    const constants = /^(?:inline )?constexpr /.test(line) ? (line.match(/\bk[A-Z]\w*(?= =|\[)/g) ?? []) : [];
    return type === undefined ? constants : [type, ...constants];
  });
}

t.test('no anonymous namespace hides a name of an outer namespace', async (t) => {
  const outer = new Set(
    files
      .filter((file) => file.endsWith('.h') && /^namespace monolith \{$/m.test(read(file)))
      .flatMap((file) => namesIn(read(file))),
  );
  t.ok(outer.has('kMaxChoices') && outer.has('Tokenizer'), `${outer.size} names`);
  const hidden = files
    .filter((file) => file.endsWith('.cc') && /^namespace monolith::\w+ \{$/m.test(read(file)))
    .flatMap((file) =>
      [...read(file).matchAll(/^namespace \{\n(.*?)^\} {2}\/\/ namespace$/gms)]
        .flatMap(([, body = '']) => namesIn(body))
        .filter((name) => outer.has(name))
        .map((name) => `${file}: ${name}`),
    );
  t.same(hidden, []);
});
