// Determines from V8's coverage which test files reach which lines, so that only the tests that reach a mutant run for
// it.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runTest } from './run-test.mjs';
import { sandbox } from './sandbox.mjs';

/**
 * Runs one test and returns the lines it reached.
 * @param {string} test a file in the sandbox
 * @param {string} folder directory of dist/ to report on
 * @returns {Promise<{ passed: boolean, ms: number, lines: Record<string, number[]> }>} line numbers, counted from 1, by
 *   source file; paths start with src/
 */
export async function coverageOf(test, folder, limitMs) {
  const coverage = mkdtempSync(join(tmpdir(), 'monolith-coverage-'));
  try {
    const { passed, ms } = await runTest(test, { limitMs, coverage });
    /** @type {Map<string, Set<number>>} */
    const seen = new Map();
    for (const report of readdirSync(coverage)) {
      const { result } = JSON.parse(readFileSync(join(coverage, report), 'utf8'));
      for (const { url, functions } of result) {
        if (!url.startsWith('file:')) continue;
        const path = relative(join(sandbox, 'dist'), fileURLToPath(url));
        if (path.startsWith('..') || !path.startsWith(folder)) continue;
        const source = `src/${path.replace(/\.js$/, '.ts')}`;
        const lines = seen.get(source) ?? new Set();
        for (const line of reached(fileURLToPath(url), functions)) lines.add(line);
        seen.set(source, lines);
      }
    }
    return {
      passed,
      ms,
      lines: Object.fromEntries([...seen].map(([source, lines]) => [source, [...lines].sort((a, b) => a - b)])),
    };
  } finally {
    rmSync(coverage, { recursive: true, force: true });
  }
}

/** Lines in the TypeScript file whose JavaScript ran at least once. */
function reached(file, functions) {
  const text = readFileSync(file, 'utf8');
  const map = new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8')));
  // Ranges are nested: a later, inner range overrides the count of the outer range for its part.
  const ran = new Uint8Array(text.length).fill(1);
  for (const { ranges } of functions) {
    for (const { startOffset, endOffset, count } of ranges) ran.fill(count > 0 ? 1 : 0, startOffset, endOffset);
  }
  const lines = new Set();
  let offset = 0;
  for (const [row, line] of text.split('\n').entries()) {
    for (let column = 0; column < line.length; column++) {
      if (line[column] === ' ' || ran[offset + column] === 0) continue;
      const entry = map.findEntry(row, column);
      if (entry.originalLine !== undefined) lines.add(entry.originalLine + 1);
    }
    offset += line.length + 1;
  }
  return lines;
}
