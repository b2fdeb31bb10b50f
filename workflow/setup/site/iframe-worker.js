// A web worker in an iframe, for pages opened as files: browsers refuse to start a worker from a file: URL, and the
// search of the site runs in one. On http: and https: this script does nothing.
(() => {
  if (location.protocol !== "file:") return;

  class IFrameWorker extends EventTarget {
    constructor(name) {
      super();
      const url = new URL(name, location.href).href;
      this.iframe = document.createElement("iframe");
      this.iframe.hidden = true;
      document.body.appendChild(this.iframe);
      const inside = this.iframe.contentWindow;
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script");
          script.src = new URL(source, url).href;
          script.onload = resolve;
          script.onerror = () => reject(new Error(`cannot load ${script.src}`));
          inside.document.body.appendChild(script);
        });
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      inside.importScripts = (...sources) => Promise.all(sources.map(load));
      this.ready = load(url);
    }

    postMessage(data) {
      const inside = this.iframe.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.iframe.remove();
    }
  }
  // The worker's script looks for this name in its parent, to find the paths of the scripts that it imports.
  window.IFrameWorker = window.Worker = IFrameWorker;
})();
