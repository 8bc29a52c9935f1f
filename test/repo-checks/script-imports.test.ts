// Checks that every import in a script (.mjs) names an existing module and export. No compiler reads these files, so
// without this check, an import that breaks when a source file is moved would go unnoticed until someone runs the
// script.
import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import t from 'tap';
import ts from 'typescript';
import { root } from '../e2e/monolith.js';

const FOLDERS = ['bench', 'deploy', 'models', 'native', 'scripts', 'src', 'test'];
/** TypeScript's errors for modules that are not found and for names that a module does not export. */
const BROKEN_IMPORT = new Set([2305, 2307, 2459, 2614, 2724, 2882]);

/** Returns `FILE: MESSAGE` for each broken import. */
function brokenImports(files: readonly string[]): string[] {
  const program = ts.createProgram([...files], {
    allowJs: true,
    checkJs: true,
    noEmit: true,
    noUncheckedSideEffectImports: true,
    skipLibCheck: true,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ESNext,
    types: ['node'],
    typeRoots: [join(root, 'node_modules/@types')],
  });
  return files.flatMap((file) =>
    program
      .getSemanticDiagnostics(program.getSourceFile(file))
      .filter(({ code }) => BROKEN_IMPORT.has(code))
      .map(({ messageText }) => `${relative(root, file)}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`),
  );
}

t.test('scripts import only what exists', (t) => {
  const scripts = FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.mjs') && !file.includes('node_modules/'))
      .map((file) => join(root, folder, file)),
  );
  t.ok(scripts.length > 40, `${scripts.length} scripts`);
  t.same(brokenImports(scripts), []);
  t.end();
});

t.test('a missing module and a missing export are reported', (t) => {
  const folder = t.testdir({
    'there.mjs': 'export const there = 1;',
    'wrong.mjs':
      "import { gone } from './there.mjs';\nimport './nowhere.mjs';\nimport { x } from './absent.mjs';\nx(gone);",
  });
  const broken = brokenImports([join(folder, 'wrong.mjs')]);
  t.equal(broken.length, 3, broken.join('\n'));
  t.match(broken[0], /no exported member/);
  t.match(broken[1], /nowhere/);
  t.match(broken[2], /absent/);
  t.end();
});
