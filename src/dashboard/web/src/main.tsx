import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { ApiFailure } from './api.js';
import { App } from './app.js';
import { ToastProvider } from './components/toasts.js';
import { SessionProvider } from './session.js';
import { applyTheme, readTheme } from './theme.js';
import 'uplot/dist/uPlot.min.css';
import './styles/tokens.css';
import './styles/base.css';
import './styles/components.css';
import './styles/layout.css';
import './styles/pages.css';

applyTheme(readTheme());
// The server also returns this page at /, but the routes start at /dashboard.
if (!location.pathname.startsWith('/dashboard')) history.replaceState(null, '', `/dashboard${location.search}`);

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: true,
      // The client retries only if the server is unreachable or overloaded. Any other error is final.
      retry: (failures, error) =>
        failures < 2 && error instanceof ApiFailure && (error.status === 0 || error.status >= 500),
      retryDelay: (attempt, error) =>
        error instanceof ApiFailure && error.retryAfterMs !== null
          ? Math.min(error.retryAfterMs, 10_000)
          : 500 * 2 ** attempt,
    },
  },
});

const root = document.getElementById('root');
if (root === null) throw new Error('no #root');
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <ToastProvider>
        <SessionProvider>
          <App />
        </SessionProvider>
      </ToastProvider>
    </QueryClientProvider>
  </StrictMode>,
);
