// Checks that functions, methods and constructors have at most five positional parameters. Further parameters must be
// members of an options object, which callers fill in by name.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import t from 'tap';
import ts from 'typescript';
import { root } from '../e2e/monolith.js';

const MAX_PARAMETERS = 5;
const FOLDERS = ['src', 'test', 'bench', 'scripts'];
/** Functions that may have more parameters, by file. */
const ALLOWED: readonly string[] = [
  'src/engine/addon-types.ts debugVision', // implemented in C++, which reads its arguments by position
];

const sources = FOLDERS.flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(tsx?|m?js)$/.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => !file.includes('node_modules/')),
);

/** Returns `FILE NAME` for each function with too many parameters. A constructor has the name of its class. */
function excessive(file: string, text: string): string[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node) && node.parameters.length > MAX_PARAMETERS) {
      const named = node.name ?? (node.parent as ts.NamedDeclaration).name;
      found.push(
        `${file} ${named?.getText() ?? `line ${source.getLineAndCharacterOfPosition(node.getStart()).line + 1}`}`,
      );
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

t.test('functions have at most five positional parameters', (t) => {
  t.ok(sources.length > 1000, `${sources.length} files`);
  t.same(
    sources.flatMap((file) => excessive(file, readFileSync(join(root, file), 'utf8'))),
    ALLOWED,
  );
  t.end();
});

t.test('the check detects violations', (t) => {
  t.same(
    excessive(
      'a.ts',
      `class A { constructor(a: 1, b: 2, c: 3, d: 4, e: 5, f: 6) {} }
       function six(a: 1, b: 2, c: 3, d: 4, e: 5, { f }: { f: 6 }) {}
       const arrow = (a: 1, b: 2, c: 3, d: 4, e: 5, ...f: 6[]) => 7;
       interface I { method(a: 1, b: 2, c: 3, d: 4, e: 5, f: 6): void }
       function five(a: 1, b: 2, c: 3, d: 4, e: 5) {}
       call((a, b, c, d, e, f) => 1);`,
    ),
    ['a.ts A', 'a.ts six', 'a.ts arrow', 'a.ts method', 'a.ts line 6'],
  );
  t.end();
});
