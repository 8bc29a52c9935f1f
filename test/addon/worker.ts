// A worker thread for workers.test.ts. It attaches to the named engine and runs one request.
import { parentPort, workerData } from 'node:worker_threads';
import { loadStarter, promptOf, Recorder, submitOptions } from './starter.js';

const { name, seed, maxTokens } = workerData as { name: string; seed: number; maxTokens: number };
const engine = await loadStarter(name);
const recorder = new Recorder(engine);
const id = recorder.channel.submit(submitOptions(promptOf(engine), { seed: BigInt(seed), temperature: 1, maxTokens }));
await recorder.until(() => recorder.of(id).length >= 2);
parentPort?.postMessage('running');
await recorder.ended(id);
parentPort?.postMessage(recorder.text(id));
await engine.close();
