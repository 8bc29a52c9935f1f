// Writes a report's files: a directory with the page, the metrics and, for each run, its records in Monolith's format
// and in the formats of other tools.

import { createWriteStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { LoadError } from '../load-error.js';
import { aiperfLine, aiperfResult } from './aiperf.js';
import { reportPage } from './page.js';
import { finite, recordLine } from './report.js';
import type { FinishedRun, LoadReport } from './report.js';
import { vllmResult } from './vllm.js';
import { makeFolder } from '../../../shared/make-folder.js';

/**
 * Writes report.html and result.json to `folder` and, in its subdirectories run-1, run-1-round-2 and so on,
 * requests.jsonl, vllm.json, profile_export_aiperf.json and profile_export.jsonl. Throws LoadError if they cannot be
 * written.
 */
export async function writeReport(folder: string, report: LoadReport, runs: readonly FinishedRun[]): Promise<void> {
  try {
    makeFolder(folder);
    json(join(folder, 'result.json'), report);
    writeFileSync(join(folder, 'report.html'), reportPage(report, runs));
    let number = 0;
    for (const run of runs) {
      if (run.round === 1) number++;
      const own = join(folder, `run-${number}${run.round > 1 ? `-round-${run.round}` : ''}`);
      const { records, startedAt } = run.result;
      makeFolder(own);
      await lines(join(own, 'requests.jsonl'), records.length, (n) =>
        recordLine(records[n] as (typeof records)[number]),
      );
      await lines(join(own, 'profile_export.jsonl'), records.length, (n) =>
        aiperfLine(records[n] as (typeof records)[number], n, startedAt),
      );
      json(join(own, 'vllm.json'), vllmResult(run));
      json(join(own, 'profile_export_aiperf.json'), aiperfResult(run, report.version, `${Math.round(startedAt)}`));
    }
  } catch (error) {
    throw new LoadError(`cannot write the report to ${folder}: ${(error as Error).message}`, error);
  }
}

const json = (path: string, value: object): void => {
  writeFileSync(path, `${JSON.stringify(value, finite, 1)}\n`);
};

async function lines(path: string, count: number, line: (n: number) => string): Promise<void> {
  const all = function* (): Generator<string> {
    for (let n = 0; n < count; n++) yield `${line(n)}\n`;
  };
  await pipeline(Readable.from(all()), createWriteStream(path));
}
