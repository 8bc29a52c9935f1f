// A module is a part of a service that is opened and closed as a unit. app.ts lists a service's modules. Each module
// receives what it needs from earlier modules as typed arguments.

import type { Config } from '../config/settings.js';
import type { Route } from '../http/exchange.js';
import type { Health } from '../http/health-routes.js';
import type { SocketRoute } from '../http/socket.js';
import type { Telemetry } from '../telemetry/types.js';
import { DisposableStack } from './disposable-stack.js';
import type { SharedState } from './shared-state.js';

/** The stages of a shutdown. */
export interface ShutdownState {
  /** Whether /readyz reports that the server is about to shut down. */
  unready: boolean;
  /** Whether new requests are refused. */
  draining: boolean;
}

/** Passed to every module. */
export interface AppContext {
  readonly config: Config;
  readonly telemetry: Telemetry;
  readonly shared: SharedState;
  /**
   * The primary thread does everything that is done once per server: sweeps, ending unfinished responses, and creating
   * the key set by the operator.
   */
  readonly primary: boolean;
  readonly shutdown: Readonly<ShutdownState>;
}

export interface Module {
  readonly routes?: readonly Route[];
  readonly sockets?: readonly SocketRoute[];
  /** This module's part of /livez and /readyz. */
  health?(): Partial<Health>;
  /** Closes everything that the module opened. */
  close(): Promise<void>;
}

/**
 * Opens a module from its parts. `open` registers a closing step for each part that needs one; the steps run in reverse
 * order. If `open` fails, the parts opened so far are closed.
 */
export function openModule<T extends object>(
  open: (undo: DisposableStack) => T | Promise<T>,
): Promise<T & Pick<Module, 'close'>> {
  return DisposableStack.opening(async (undo) => ({ ...(await open(undo)), close: () => undo.run() }));
}
