// Short confirmation messages, announced politely. Errors are shown where they occur, not as toasts.
import { createContext, useCallback, useContext, useRef, useState } from 'react';
import type { ReactNode } from 'react';
import { Icon } from './icon.js';

const SHOWN_MS = 5000;
const MOST = 3;

interface Toast {
  id: number;
  text: string;
}

const Context = createContext<(text: string) => void>(() => undefined);

export function ToastProvider({ children }: { children: ReactNode }): ReactNode {
  const [toasts, setToasts] = useState<Toast[]>([]);
  const next = useRef(0);
  const show = useCallback((text: string) => {
    const id = next.current++;
    setToasts((old) => [...old.slice(1 - MOST), { id, text }]);
    window.setTimeout(() => setToasts((old) => old.filter((toast) => toast.id !== id)), SHOWN_MS);
  }, []);
  return (
    <Context value={show}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {toasts.map(({ id, text }) => (
          <div key={id} className="toast">
            <Icon name="check" /> {text}
          </div>
        ))}
      </div>
    </Context>
  );
}

/** `toast('API key revoked')` */
export const useToast = (): ((text: string) => void) => useContext(Context);
