// A TCP proxy between two programs under test that fails on demand. Bytes stay in order within a connection; slow
// connections may overtake one another.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * `cut`: resets existing and new connections. `held`: keeps connections open but forwards nothing, not even their end.
 * `deaf`: forwards requests but no responses. `slow`: delays each chunk by up to `slowMs`.
 */
export type Way = 'through' | 'cut' | 'held' | 'deaf' | 'slow';

export interface TcpProxy {
  readonly port: number;
  set(way: Way, slowMs?: number): void;
  /** Resets the existing connections. New connections are forwarded as before. */
  reset(): void;
  close(): Promise<void>;
}

export async function startTcpProxy(target: number): Promise<TcpProxy> {
  let way: Way = 'through';
  let slowMs = 0;
  const changes = new Set<() => void>();
  const sockets = new Set<Socket>();
  const changed = (): Promise<void> =>
    new Promise((resolve) => {
      changes.add(resolve);
    });
  const isHeld = (answers: boolean): boolean => way === 'held' || (way === 'deaf' && answers);

  /** Waits until data can be forwarded. */
  async function passage(answers: boolean): Promise<void> {
    if (way === 'slow') await sleep(Math.random() * slowMs);
    while (isHeld(answers)) await changed();
  }

  function carry(from: Socket, to: Socket, answers: boolean): void {
    let before: Promise<unknown> = Promise.resolve();
    const then = (act: () => unknown): void => {
      before = before.then(() => passage(answers)).then(act, () => undefined);
    };
    from.on('data', (piece: Buffer) => {
      from.pause();
      then(async () => {
        if (!to.destroyed && !to.write(piece))
          await Promise.race([once(to, 'drain'), once(to, 'close')]).catch(() => undefined);
        from.resume();
      });
    });
    from.on('end', () => then(() => to.end()));
    from.on('close', () => then(() => to.destroy()));
    from.on('error', () => undefined);
  }

  const server = createServer({ allowHalfOpen: true }, (client) => {
    if (way === 'cut') return void client.on('error', () => undefined).resetAndDestroy();
    const engine = connect({ port: target, host: '127.0.0.1', allowHalfOpen: true });
    for (const socket of [client, engine]) {
      socket.setNoDelay(true);
      sockets.add(socket.on('close', () => sockets.delete(socket)));
    }
    carry(client, engine, false);
    carry(engine, client, true);
  });
  const cut = (): void => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    set(next, ms = 0) {
      [way, slowMs] = [next, ms];
      if (way === 'cut') cut();
      for (const wake of [...changes]) wake();
      changes.clear();
    },
    reset: cut,
    async close() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
