// Browsers start no Worker for a page from the file system: there, search runs in a hidden frame.
if (location.protocol === "file:") {
  const message = (data) => new MessageEvent("message", { data: structuredClone(data) })
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.srcdoc = `<script src="${url}"></script>`
      this.inside = new Promise((ready) => {
        this.frame.onload = () => {
          const inside = this.frame.contentWindow
          inside.postMessage = (data) => setTimeout(() => this.onmessage?.(message(data)))
          ready(inside)
        }
      })
      document.body.append(this.frame)
    }

    postMessage(data) {
      this.inside.then((inside) => inside.dispatchEvent(message(data)))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
