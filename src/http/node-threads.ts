// Lets several threads listen on one port (SO_REUSEPORT), so that the kernel distributes new connections among them.
// The main thread selects a port, orders each thread to listen on it, and then stops listening itself.
//
//   main: NodeThreads ── MessagePort: address, or null to stop ──► thread: ThreadListener
//                     ◄── whether the thread is listening ────────

import { MessageChannel, MessagePort } from 'node:worker_threads';

export interface ListenAddress {
  host: string;
  port: number;
  /** Whether other threads may listen on the same port. */
  shared: boolean;
}

type Listen = (address: ListenAddress) => Promise<number | null>;

/** Node.js supports SO_REUSEPORT since versions 22.12 and 23.1. */
export function sharesPorts(version = process.versions.node): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > 23 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12);
}

/** The main thread's part of listening on several threads. */
export class NodeThreads {
  private readonly ports = new Set<MessagePort>();
  private address: ListenAddress | null = null;
  private stopHere: () => void = () => undefined;

  constructor(private readonly listenHere: Listen) {}

  get size(): number {
    return this.ports.size;
  }

  /**
   * Resolves to the port when all threads listen on it, or to null if that fails. `stopHere` stops this thread's own
   * listening.
   */
  async listen(host: string, port: number, stopHere: () => void): Promise<number | null> {
    const found = await this.listenHere({ host, port, shared: true });
    if (found === null) return null;
    const address = { host, port: found, shared: true };
    this.address = address;
    this.stopHere = stopHere;
    const all = await Promise.all([...this.ports].map((one) => ordered(one, address)));
    if (all.includes(false)) return null;
    stopHere();
    return found;
  }

  add(descriptor: unknown): void {
    if (!(descriptor instanceof MessagePort)) throw new Error('not a thread of this transport');
    descriptor.unref();
    this.ports.add(descriptor);
    if (this.address !== null) void this.start(descriptor, this.address);
  }

  /**
   * Starts listening on a thread that was added after listen(). If this thread is listening itself because the other
   * threads had exited, it stops.
   */
  private async start(port: MessagePort, address: ListenAddress): Promise<void> {
    if ((await ordered(port, address)) && this.ports.has(port)) this.stopHere();
  }

  remove(descriptor: unknown): void {
    if (!(descriptor instanceof MessagePort) || !this.ports.delete(descriptor)) return;
    descriptor.postMessage(null);
    descriptor.close();
    if (this.ports.size === 0 && this.address !== null) void this.listenHere(this.address);
  }

  stop(): void {
    this.address = null;
    for (const port of this.ports) port.postMessage(null);
  }

  close(): void {
    this.stop();
    for (const port of this.ports) port.close();
    this.ports.clear();
  }
}

/** Starts listening on a thread. Resolves to false if the thread cannot listen or has exited. */
function ordered(port: MessagePort, address: ListenAddress): Promise<boolean> {
  return new Promise((resolve) => {
    port.once('message', (listening: unknown) => resolve(listening === true));
    port.once('close', () => resolve(false));
    port.postMessage(address);
  });
}

/** The counterpart of NodeThreads on a thread that serves connections. */
export class ThreadListener {
  private readonly channel = new MessageChannel();
  /** Must be transferred to the main thread. */
  readonly remote = this.channel.port2;

  constructor(server: { listen: Listen; stop(): void }) {
    const { port1 } = this.channel;
    port1.on('message', (address: ListenAddress | null) => {
      if (address === null) server.stop();
      else void server.listen(address).then((port) => port1.postMessage(port !== null));
    });
    port1.unref();
  }

  close(): void {
    this.channel.port1.close();
  }
}
