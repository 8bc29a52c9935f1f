// Checks that comments, strings and docs contain no wording that docs/internals/contributing.md rules out. A program
// can check only this minimum, so every text must still be read. If a sentence needs a ruled-out wording, add the
// sentence to ALLOWED.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import t from 'tap';
import ts from 'typescript';
import { root } from '../e2e/monolith.js';

const COVERED = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...['bench', 'deploy', 'docs', 'models', 'native', 'scripts', 'src', 'test'],
];
/** Recorded results and test data. */
const DATA = /^(bench\/results\/.*\.(md|json)|test\/(data|fuzz\/corpus)\/)/;
/** Files that quote the ruled-out wordings. */
const QUOTING = new Set(['docs/internals/contributing.md']);
/** Lines that are exempt, by file, as whole trimmed lines. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {};

const words = readFileSync(join(root, 'test', 'repo-checks', 'words.txt'), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))
  .map((line) => `(?:${line})`);
const ruledOut = new RegExp(words.join('|'));

function filesIn(path: string): string[] {
  if (/\.[a-z]+$/.test(path)) return [path];
  return readdirSync(join(root, path), { recursive: true, withFileTypes: true })
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter(
      (file) =>
        /\.(tsx?|mjs|cc|h|cuh?|md|ya?ml|sh)$/.test(file) && !/node_modules\/|\/\./.test(file) && !DATA.test(file),
    );
}

/** Whether the string is a test's title. The other strings in tests are mostly data. */
const isTitle = ({ parent }: ts.Node): boolean =>
  ts.isCallExpression(parent) && /(^|\.)test$/.test(parent.expression.getText());

/** Returns the comments in a C++ or CUDA file, with the line on which each starts, counted from 0. */
function commentsOf(source: string): { line: number; text: string }[] {
  return [...source.matchAll(/"(?:\\.|[^"\\\n])*"|\/\/.*|\/\*[^]*?\*\//g)]
    .filter(([text]) => !text.startsWith('"'))
    .map(({ 0: text, index }) => ({ line: source.slice(0, index).split('\n').length - 1, text }));
}

/**
 * Returns the comments and strings in a TypeScript or JavaScript file (for tests, only comments and titles), with the
 * line on which each starts, counted from 0.
 */
function textsOf(file: string, source: string): { line: number; text: string }[] {
  const parsed = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true);
  const found: { line: number; text: string }[] = [];
  const add = (from: number, to: number): void => {
    found.push({ line: parsed.getLineAndCharacterOfPosition(from).line, text: source.slice(from, to) });
  };
  const isTest = file.startsWith('test/');
  const visit = (node: ts.Node): void => {
    const parts = node.getChildren(parsed).filter((part) => !ts.isJSDoc(part));
    if (parts.length > 0) return parts.forEach(visit);
    const start = node.getStart(parsed);
    // Every comment lies between two tokens.
    if (start > node.pos) add(node.pos, start);
    if (/String|Template|JsxText/.test(ts.SyntaxKind[node.kind]) && (!isTest || isTitle(node))) add(start, node.end);
  };
  visit(parsed);
  return found;
}

/** Text in backticks is code, so it is not checked. */
const withoutCode = (text: string): string => text.replace(/`[^`]*`/g, '');

function linesOf(file: string): { line: number; text: string }[] {
  const source = readFileSync(join(root, file), 'utf8');
  // Most files contain none of the wordings, not even in code. Parsing such files anyway would make the test ten times
  // as slow.
  if (!source.split('\n').some((line) => ruledOut.test(line) || ruledOut.test(withoutCode(line)))) return [];
  const texts = /\.(tsx?|mjs)$/.test(file)
    ? textsOf(file, source)
    : /\.(cc|h|cuh?)$/.test(file)
      ? commentsOf(source)
      : source.split('\n').map((text, line) => ({ line, text }));
  return texts.flatMap(({ line, text }) =>
    text.split('\n').map((part, at) => ({ line: line + at, text: withoutCode(part) })),
  );
}

t.test('texts contain no wording that reads as translated', (t) => {
  const found = COVERED.flatMap(filesIn)
    .filter((file) => !QUOTING.has(file))
    .flatMap((file) =>
      linesOf(file)
        .filter(({ text }) => ruledOut.test(text) && ALLOWED[file]?.includes(text.trim()) !== true)
        .map(({ line, text }) => `${file}:${line + 1}: ${text.trim()}`),
    );
  t.same(found, []);
  t.end();
});
