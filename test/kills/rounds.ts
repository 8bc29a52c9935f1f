// Repeatedly starts a server, puts it under load, kills it at a random moment, restarts it and checks it. Some servers
// are killed while they are starting or shutting down. Several rounds share a data directory. After the last of these
// rounds, the server is shut down cleanly and the whole directory is checked. The seed and the round number determine
// all random choices, but not what the kill interrupts.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkWhole } from '../../src/storage/lmdb/database-file.js';
import { databasePath } from '../../src/storage/lmdb/lmdb-store.js';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import { dashboardClient, type DashboardClient } from '../support/dashboard-client.js';
import { randomFrom, type Random } from '../support/random.js';
import { writeScriptModel } from '../support/script-model.js';
import { check, type Checked } from './check.js';
import { Ledger } from './ledger.js';
import { load, usageOf } from './load.js';
import { Victim } from './victim.js';

const ROUNDS_OF_A_FOLDER = 20;
/**
 * The load lasts until the server has used up to this much CPU time, so on a busy machine, rounds take longer but do
 * the same amount of work.
 */
const LOAD_CPU_MS = 900;
/**
 * Number of responses from earlier rounds that each round checks. After the last round with a directory, all are
 * checked.
 */
const LOOKED_AT = 24;

export interface RoundsOptions {
  rounds: number;
  seed: number;
  first?: number;
  say?: (text: string) => void;
  readyWithinMs?: number;
  main?: string;
}
export interface Failure {
  round: number;
  problem: string;
}
export interface RoundsResult {
  rounds: number;
  failures: Failure[];
  readyMs: number[];
  counts: string[];
}

export async function killRounds({
  rounds,
  seed,
  first = 0,
  say = () => undefined,
  readyWithinMs = 30_000,
  main,
}: RoundsOptions): Promise<RoundsResult> {
  const result: RoundsResult = { rounds: 0, failures: [], readyMs: [], counts: [] };
  for (let at = first; at < first + rounds; at += ROUNDS_OF_A_FOLDER) {
    const folder = new Folder(seed, readyWithinMs, result, main);
    const failed = result.failures.length;
    try {
      await folder.rounds(at, Math.min(ROUNDS_OF_A_FOLDER, first + rounds - at), say);
    } catch (error) {
      result.failures.push({
        round: folder.round,
        problem: `the round could not be completed: ${String((error as Error).stack ?? error)} ${String((error as Error).cause ?? '')}`,
      });
    }
    result.counts.push(folder.ledger.counts());
    await folder.end();
    if (result.failures.length === failed) folder.remove();
    else {
      for (const { round, problem } of result.failures.slice(failed)) say(`round ${round}: ${problem}`);
      say(
        `again: npm run kills -- --seed ${seed} --first ${at} --rounds ${ROUNDS_OF_A_FOLDER}; the data directory was kept: ${folder.path}`,
      );
    }
  }
  return result;
}

class Folder {
  readonly path = mkdtempSync(join(tmpdir(), 'monolith-kills-'));
  readonly ledger = new Ledger();
  round = 0;
  readonly #data = join(this.path, 'data');
  readonly #model = join(this.path, 'script.gguf');
  #victim: Victim | null = null;
  #cookie: string | null = null;
  #secret = '';
  #foreign = '';
  #organization = '';
  #target: Checked | null = null;

  constructor(
    private readonly seed: number,
    private readonly readyWithinMs: number,
    private readonly result: RoundsResult,
    private readonly main: string | undefined,
  ) {
    mkdirSync(this.#data);
    writeScriptModel(this.#model);
  }

  async rounds(first: number, count: number, say: (text: string) => void): Promise<void> {
    await this.#start();
    for (this.round = first; this.round < first + count; this.round++) {
      await this.#round(randomFrom(this.seed * 100_003 + this.round));
      this.result.rounds++;
      if (this.result.rounds % 10 === 0)
        say(
          `${this.result.rounds} rounds, ${this.result.failures.length} failures, maximum time until ready ${Math.round(Math.max(...this.result.readyMs))} ms; this folder: ${this.ledger.counts()}`,
        );
    }
    this.round--;
    await this.#close();
  }

  async end(): Promise<void> {
    await this.#victim?.kill();
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true, maxRetries: 3 });
  }

  async #round(random: Random): Promise<void> {
    const { ledger } = this;
    const before = { responses: ledger.responses.length, keys: ledger.keys.length };
    const target = this.#target!;
    const victim = this.#victim!;
    const loaded = load(target, ledger, this.seed * 7_919 + this.round);
    await victim.computed(random.below(LOAD_CPU_MS));
    const how = random.below(10);
    if (how === 0) {
      victim.terminate();
      await victim.computed(random.below(400));
    }
    await victim.kill();
    await loaded;
    this.#tell(ledger.problems.splice(0));
    this.#tell(victim.errors().map((line) => `error in the server log: ${line}`));
    this.#checkFile();
    if (how === 1) {
      const starting = new Victim(this.#data, this.#model, this.main);
      await starting.computed(random.below(Math.ceil(victim.readyCpuMs)));
      await starting.kill();
      this.#checkFile();
    }
    await this.#start();
    const earlier = Array.from(
      { length: Math.min(LOOKED_AT, before.responses) },
      () => ledger.responses[random.below(before.responses)]!,
    );
    this.#tell(
      await check(
        this.#target!,
        ledger,
        [...new Set([...earlier, ...ledger.responses.slice(before.responses)])],
        ledger.keys.slice(Math.max(0, before.keys - LOOKED_AT)),
      ),
    );
  }

  /** Shuts the server down cleanly and checks everything once more. */
  async #close(): Promise<void> {
    const { ledger } = this;
    const spent = await usageOf(this.#target!.owner, this.#organization);
    const before = ledger.responses.length;
    const victim = this.#victim!;
    const loaded = load(this.#target!, ledger, this.seed * 7_919 - 1 - this.round);
    await victim.computed(300);
    victim.terminate();
    const code = await victim.exitCode();
    if (code !== 0) this.#tell([`after SIGTERM the exit code was ${code}`]);
    await loaded;
    this.#tell(ledger.problems.splice(0));
    this.#tell(victim.errors().map((line) => `error in the server log: ${line}`));
    await this.#start();
    this.#tell(await check(this.#target!, ledger, ledger.responses, ledger.keys));
    const answered = ledger.responses
      .slice(before)
      .reduce(
        (sum, { final }) =>
          sum + ((final?.['usage'] as { output_tokens?: number } | null | undefined)?.output_tokens ?? 0),
        0,
      );
    const now = await usageOf(this.#target!.owner, this.#organization);
    if (now.output - spent.output < answered)
      this.#tell([
        `${answered} output tokens were returned before an orderly shutdown, but usage grew by ${now.output - spent.output}`,
      ]);
    await this.#victim!.kill();
    this.#checkFile();
  }

  async #start(): Promise<void> {
    const victim = new Victim(this.#data, this.#model, this.main);
    this.#victim = victim;
    const url = await victim.ready;
    this.result.readyMs.push(victim.readyMs);
    if (victim.readyMs > this.readyWithinMs)
      this.#tell([`the server was ready only after ${Math.round(victim.readyMs)} ms`]);
    const owner: DashboardClient = dashboardClient(url);
    if (this.#cookie === null) {
      this.#organization = (await owner.signUp({ email: 'owner@example.com' })).organization.id;
      this.#secret = (
        await owner.post<CreatedApiKey>(`/organizations/${this.#organization}/api-keys`, { name: 'load' })
      ).secret;
      this.#cookie = owner.cookie;
      const stranger = dashboardClient(url);
      const { organization } = await stranger.signUp({ email: 'stranger@example.com' });
      this.#foreign = (
        await stranger.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, { name: 'foreign' })
      ).secret;
    } else {
      owner.cookie = this.#cookie;
    }
    this.#target = {
      victim,
      url,
      owner,
      secret: this.#secret,
      foreign: this.#foreign,
      organization: this.#organization,
      data: this.#data,
    };
  }

  #checkFile(): void {
    try {
      checkWhole(databasePath(this.#data));
    } catch (error) {
      this.#tell([`database file: ${(error as Error).message}`]);
    }
  }

  #tell(problems: readonly string[]): void {
    for (const problem of problems) this.result.failures.push({ round: this.round, problem });
  }
}
