// Jobs, which are the work on a batch as a whole: validating its input file, ending the lines of a cancelled or expired
// batch, and writing its output files. Only the process that holds the batch's job lease does this. If that process is
// lost, another process repeats the job from its start.

import type { EventLoopBudget } from '../../admission/event-loop-budget.js';
import { EventLoopClock, EventLoopMeter } from '../../http/event-loop-meter.js';
import { parseInTurns, type SharedWork } from '../../http/shared-work.js';
import type { FileStore, FileWriter } from '../../storage/file-store.js';
import type { Batch, BatchStore, StoredResult } from '../../storage/batch-store.js';
import type { ServedModels } from '../../generation/served-models.js';
import { ApiError } from '../../shared/errors.js';
import { derivedFileId } from '../../shared/ids.js';
import type { Identity } from '../../shared/identity.js';
import { permit, shownTo } from '../../shared/permissions.js';
import type { Log } from '../../telemetry/types.js';
import { readInput } from './input-lines.js';
import { openaiLine } from './results.js';

export interface JobDeps {
  readonly batches: BatchStore;
  readonly files: FileStore;
  readonly models: Pick<ServedModels, 'find'>;
  readonly identityOf: (organizationId: string, keyId: string) => Promise<Identity>;
  readonly work: SharedWork;
  readonly loopTime: EventLoopBudget;
  readonly log: Log;
  readonly maxLines: number;
  readonly maxLineBytes: number;
  /** Default lifetime of output files, in seconds. Clients can set a different lifetime per batch. */
  readonly outputS: number;
  readonly now: () => number;
}

/** Maximum number of lines that one transaction ends. */
const STOPPED_AT_ONCE = 500;
/** Approximate size of the results that are read at a time, in characters. */
const RESULT_PAGE = 1_048_576;

/**
 * Runs the job for the batch's phase. Resolves to the delay, in ms, before the job must be repeated, or to null if
 * the job is done.
 */
export function runJob(deps: JobDeps, batch: Batch): Promise<number | null> {
  switch (batch.phase) {
    case 'validating':
      return validate(deps, batch);
    case 'stopping':
      return stop(deps, batch);
    case 'finalizing':
      return finalize(deps, batch);
    case 'running':
    case 'ended':
      return Promise.resolve(null);
  }
}

async function validate(deps: JobDeps, { id, organizationId, keyId, endpoint, inputFileId }: Batch): Promise<null> {
  const { batches, files, models } = deps;
  if (inputFileId === null) return null;
  try {
    const identity = await deps.identityOf(organizationId, keyId);
    const meter = new EventLoopMeter(deps.loopTime, organizationId, {
      loop: new EventLoopClock(),
      annotate: () => undefined,
    });
    const { total, model, problems } = await readInput(
      files.read(organizationId, inputFileId, { holder: id }),
      {
        endpoint,
        maxLines: deps.maxLines,
        maxLineBytes: deps.maxLineBytes,
        parse: (line) => parseInTurns(deps.work, organizationId, line, { meter, what: 'line' }),
        checkModel: (name) => permit(identity, 'inference', models.find(name, shownTo(identity)).name),
      },
      (lines) => batches.addLines(id, lines),
    );
    if (problems.length > 0) await batches.fail(id, problems);
    else await batches.begin(id, total, model);
  } catch (error) {
    // Errors with status 500 or above are temporary, such as an unavailable database. The runner repeats the job.
    if (!(error instanceof ApiError) || error.status >= 500) throw error;
    await batches.fail(id, [{ code: error.code, message: error.message, param: null, line: null }]);
  }
  await files.release(organizationId, inputFileId, id);
  return null;
}

/** Interval, in ms, between checks whether a stopping batch's running lines have ended. */
const STOPPING_MS = 1_000;

async function stop({ batches }: JobDeps, { id, organizationId }: Batch): Promise<number | null> {
  while ((await batches.stopLines(id, STOPPED_AT_ONCE)) > 0);
  return (await batches.get(organizationId, id))?.phase === 'stopping' ? STOPPING_MS : null;
}

/**
 * Writes the output files. The IDs of the files depend only on the batch, so a repeated job finds the files that an
 * interrupted one has completed, instead of creating others.
 */
async function finalize(deps: JobDeps, batch: Batch): Promise<null> {
  const { batches, files } = deps;
  const { id, organizationId, inputFileId } = batch;
  if (batch.kind === 'messages') {
    await batches.end(id, { outputFileId: null, errorFileId: null });
    return null;
  }
  const succeeded = new ResultFile(deps, batch, 'output');
  const others = new ResultFile(deps, batch, 'error');
  const written: { outputFileId: string | null; errorFileId: string | null } = {
    outputFileId: null,
    errorFileId: null,
  };
  try {
    for (let after = 0; ; ) {
      const page = await batches.results(id, after, RESULT_PAGE);
      if (page.length === 0) break;
      for (const result of page) await (result.outcome === 'succeeded' ? succeeded : others).add(result);
      after = page.at(-1)?.line ?? after;
    }
    written.outputFileId = await finish(deps, batch, succeeded);
    written.errorFileId = await finish(deps, batch, others);
  } catch (error) {
    await Promise.allSettled([succeeded.discard(), others.discard()]);
    throw error;
  }
  // False if another process has already completed the batch, or if the batch was erased with its organization.
  if (!(await batches.end(id, written)) && (await batches.get(organizationId, id)) === null) {
    for (const file of [written.outputFileId, written.errorFileId])
      if (file !== null) await files.delete(organizationId, file);
    return null;
  }
  await batches.dropResults(id);
  if (inputFileId !== null) await files.release(organizationId, inputFileId, id);
  return null;
}

/**
 * Completes a file, unless another process has completed the batch, because the client may have deleted the file since
 * then and it must not reappear. Resolves to null if there is no file.
 */
async function finish({ batches }: JobDeps, { organizationId, id }: Batch, file: ResultFile): Promise<string | null> {
  if ((await batches.get(organizationId, id))?.phase === 'finalizing') return file.finish();
  await file.discard();
  return null;
}

/** An output or error file of a batch. The file is created when the first result is added. */
class ResultFile {
  #writer: FileWriter | null = null;

  constructor(
    private readonly deps: JobDeps,
    private readonly batch: Batch,
    private readonly kind: 'output' | 'error',
  ) {}

  async add(result: StoredResult): Promise<void> {
    const { organizationId, id, finalizingAt, createdAt } = this.batch;
    this.#writer ??= this.deps.files.create(organizationId, {
      limited: false,
      id: derivedFileId(finalizingAt ?? createdAt, `${id} ${this.kind}`),
    });
    await this.#writer.write(Buffer.from(`${openaiLine(result)}\n`));
  }

  /** Completes the file. Resolves to its ID, or to null if no result was added. */
  async finish(): Promise<string | null> {
    if (this.#writer === null) return null;
    const { batch, deps, kind } = this;
    const now = Math.floor(deps.now() / 1000);
    const { id } = await this.#writer.finish({
      purpose: 'batch_output',
      filename: `${batch.id}_${kind}.jsonl`,
      mediaType: 'application/jsonl',
      expiresAt: now + (batch.outputExpiresS ?? deps.outputS),
    });
    return id;
  }

  /** Erases the contents of an unfinished file. */
  async discard(): Promise<void> {
    await this.#writer?.discard();
  }
}
