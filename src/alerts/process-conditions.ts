// Conditions for each running process's free disk space, and for processes without a heartbeat.

import type { SeenProcess } from './alert-store.js';
import { levelAbove } from './condition.js';
import type { Condition } from './condition.js';
import { duration, moment, showBytes } from './shown.js';
import type { Thresholds } from './thresholds.js';

/** `processes`: the running processes. */
export function disks(processes: readonly SeenProcess[], { diskFreeBytes: threshold }: Thresholds): Condition[] {
  if (threshold === 0) return [];
  return processes.map(({ name, readings: { diskFreeBytes: free } }) => {
    const sentence = `${showBytes(free ?? 0)} are free on the data directory's disk; the threshold is ${showBytes(threshold)}.`;
    return {
      key: `disk ${name}`,
      kind: 'disk',
      level: free === null ? 'unknown' : levelAbove(free, threshold),
      name: `Free disk space of ${name}`,
      value: free,
      threshold,
      shownValue: free === null ? null : showBytes(free),
      shownThreshold: `at least ${showBytes(threshold)}`,
      note: free === null ? 'the free space cannot be determined' : null,
      now: free === null ? 'The free space can no longer be determined.' : sentence,
      ownNotice: null,
      describe: () => ({
        title: `Little disk space: ${showBytes(free ?? 0)} free (threshold ${showBytes(threshold)})`,
        what: `${sentence} When the disk is full, requests that store data are rejected with 503.`,
        process: name,
        lookAt:
          'Delete old backups, logs or downloaded models ("Manage models" on the dashboard), or enlarge the disk.',
      }),
    };
  });
}

/**
 * One condition per process. `isSteady`: false while a silent process may merely have lost its database connection, as
 * this process did. `now`: milliseconds since the Unix epoch.
 */
export function downs(
  processes: readonly SeenProcess[],
  { downMs }: Thresholds,
  isSteady: boolean,
  now: number,
): Condition[] {
  if (downMs === 0) return [];
  return processes.map(({ name, alive, silentMs }) => ({
    key: `down ${name}`,
    kind: 'down',
    level: alive ? 'within' : isSteady && silentMs >= downMs ? 'over' : 'between',
    name: `Last heartbeat of ${name}`,
    value: silentMs,
    threshold: downMs,
    shownValue: alive ? 'running' : `${duration(silentMs)} ago`,
    shownThreshold: `at most ${duration(downMs)} ago`,
    note: null,
    now: alive ? 'The process is running again.' : 'The process sends no heartbeats.',
    ownNotice: null,
    describe: () => ({
      title: `Process down: ${name}`,
      what: `The process has sent no heartbeat since ${moment(now - silentMs)} (${duration(silentMs)}; the threshold is ${duration(downMs)}). It did not shut down normally: it was killed, crashed, or cannot reach the database.`,
      process: name,
      lookAt:
        'Check the service manager or container platform of the process, then its log. The other processes keep serving requests.',
    }),
  }));
}
